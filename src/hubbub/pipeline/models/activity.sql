-- How many sessions, channels and hubs were active at what time?
-- grain: hub, time
-- partition: view
-- reads: changes
-- columns: text hub, time time, whole active_sessions active_subscriptions active_channels active_hubs sessions_opened sessions_closed
-- The last 31 days, quiet times included; earlier changes count in the first slot. `*` is the sum of all hubs.
WITH span AS (
  SELECT max(micros(time)) AS latest, max(micros(time)) - 2678400000000 AS earliest FROM changes
), counted AS (
  SELECT hub, greatest(micros(time), earliest) AS moment, sum(sessions_opened) AS opened, sum(sessions_closed) AS closed,
    sum(subscriptions_started) AS started, sum(subscriptions_ended) AS ended, sum(active_channels) AS channels
  FROM changes CROSS JOIN span GROUP BY hub, greatest(micros(time), earliest)
), slots AS (
  SELECT hub, explode(sequence(first, latest, 300000000)) AS moment
  FROM (SELECT hub, min(moment) AS first FROM counted GROUP BY hub) AS hubs CROSS JOIN span
), filled AS (
  SELECT s.hub, s.moment, coalesce(opened, 0) AS opened, coalesce(closed, 0) AS closed, coalesce(started, 0) AS started,
    coalesce(ended, 0) AS ended, coalesce(channels, 0) AS channels
  FROM slots AS s LEFT JOIN counted AS c ON c.hub = s.hub AND c.moment = s.moment
), alive AS (            -- open in a slot, even briefly: begun before its end, and not ended before it
  SELECT hub, moment, opened, closed, channels,
    sum(opened) OVER past - sum(closed) OVER past + closed AS sessions,
    sum(started) OVER past - sum(ended) OVER past + ended AS subscriptions
  FROM filled WINDOW past AS (PARTITION BY hub ORDER BY moment ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
), marked AS (
  SELECT *, CASE WHEN sessions > 0 OR channels > 0 THEN 1 ELSE 0 END AS hubs FROM alive
)
SELECT hub, from_micros(moment) AS time, sessions AS active_sessions, subscriptions AS active_subscriptions,
  channels AS active_channels, hubs AS active_hubs, opened AS sessions_opened, closed AS sessions_closed
FROM marked
UNION ALL
SELECT '*', from_micros(moment), sum(sessions), sum(subscriptions), sum(channels), sum(hubs), sum(opened), sum(closed)
FROM marked GROUP BY moment
