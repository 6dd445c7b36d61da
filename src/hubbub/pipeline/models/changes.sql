-- How many sessions and subscriptions began and ended, in slots of five minutes?
-- grain: hub, time, hour
-- partition: hour(hour)
-- reads: sessions.opened_at, subscriptions.started_at, messages, deliveries, attempts, receipts
-- columns: text hub, time time, whole sessions_opened sessions_closed subscriptions_started subscriptions_ended active_channels, text hour
-- The hour is that in which the session or subscription began, even if the time, its end, is much later.
WITH active AS (         -- a channel is active if messages were published or delivered in it
  SELECT hub, slot("at") AS time, channel FROM messages
  UNION
  SELECT hub, slot("at"), channel FROM deliveries
  UNION
  SELECT hub, slot("at"), channel FROM attempts
  WHERE kind = 'webhook.attempt' AND outcome = 'ok' AND published_at IS NOT NULL
  UNION
  SELECT hub, slot("at"), channel FROM receipts
  WHERE kind = 'message.received' AND technology IS NOT NULL AND delivery = 1
), parts AS (
  SELECT hub, slot(opened_at) AS time, hour_of(opened_at) AS began, 1 AS sessions_opened, 0 AS sessions_closed,
    0 AS subscriptions_started, 0 AS subscriptions_ended, 0 AS active_channels
  FROM sessions
  UNION ALL
  SELECT hub, slot(closed_at), hour_of(opened_at), 0, 1, 0, 0, 0 FROM sessions WHERE closed_at IS NOT NULL
  UNION ALL
  SELECT hub, slot(started_at), hour_of(started_at), 0, 0, 1, 0, 0 FROM subscriptions
  UNION ALL
  SELECT hub, slot(ended_at), hour_of(started_at), 0, 0, 0, 1, 0 FROM subscriptions WHERE ended_at IS NOT NULL
  UNION ALL
  SELECT hub, time, hour_of(time), 0, 0, 0, 0, 1 FROM active WHERE channel IS NOT NULL
)
SELECT hub, time, sum(sessions_opened) AS sessions_opened, sum(sessions_closed) AS sessions_closed,
  sum(subscriptions_started) AS subscriptions_started, sum(subscriptions_ended) AS subscriptions_ended,
  sum(active_channels) AS active_channels, hour_name(began) AS hour
FROM parts GROUP BY hub, time, began
