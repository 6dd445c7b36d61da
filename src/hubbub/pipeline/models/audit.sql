-- Was every message put and received exactly once and in order? If not, by whom?
-- grain: kind, hub, channel, epoch, user, name
-- partition: all
-- reads: audit_totals
-- columns: text kind hub channel epoch user name verdict, whole messages lost doubled out_of_order redelivered waiting dead expired first last, time since
-- lost: numbers between the first and the last that never appeared. doubled: a producer's sequence number stored twice, or
-- a message that a subscription acknowledged twice. out_of_order: appeared after a higher number. redelivered: delivered
-- again, which is no error. waiting: delivered, but neither acknowledged nor given up. expired: not acknowledged in time.
WITH placed AS (
  SELECT *, kind = 'message.published' AS is_put,
    min(CASE WHEN kind IN ('message.published', 'message.received') THEN first END) OVER whose AS lowest,
    max(CASE WHEN kind IN ('message.published', 'message.received') THEN last END) OVER whose AS highest,
    max(CASE WHEN kind IN ('message.published', 'message.received') AND NOT again THEN last END) OVER (
      PARTITION BY hub, channel, epoch, "user", name, kind = 'message.published'
      ORDER BY began, place NULLS FIRST, first ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS reached_before
  FROM audit_totals WHERE kind <> 'message.dropped'
  WINDOW whose AS (PARTITION BY hub, channel, epoch, "user", name, kind = 'message.published')
), asked AS (            -- the runs under each question that is asked of them
  SELECT hub, channel, epoch, "user", name, is_put, question, began, lowest, highest,
    CASE WHEN question = 'covered' THEN greatest(first, lowest) ELSE first END AS first,
    CASE WHEN question = 'covered' THEN least(last, highest) ELSE last END AS last,
    CASE WHEN question = 'came' AND NOT again AND first < reached_before
      THEN least(last, reached_before - 1) - first + 1 ELSE 0 END AS late
  FROM placed JOIN (VALUES ('message.published', 'came'), ('message.published', 'covered'),
    ('message.received', 'came'), ('message.received', 'covered'), ('message.expired', 'covered'),
    ('message.expired', 'expired'), ('message.acknowledged', 'finished'), ('message.acknowledged', 'over'),
    ('message.dead', 'over'), ('message.dead', 'dead')) AS questions(kind, question) USING (kind)
), reached AS (          -- each number once: runs may overlap
  SELECT *, max(last) OVER (PARTITION BY hub, channel, epoch, "user", name, is_put, question
      ORDER BY first, last ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS reached
  FROM asked WHERE first <= last
), counted AS (
  SELECT hub, channel, epoch, "user", name, is_put, question, min(began) AS since, max(lowest) AS first, max(highest) AS last,
    sum(greatest(last - greatest(coalesce(reached, first - 1), first - 1), 0)) AS n, sum(last - first + 1) AS copies,
    sum(late) AS late
  FROM reached GROUP BY hub, channel, epoch, "user", name, is_put, question
), figures AS (
  SELECT CASE WHEN is_put THEN 'producer' ELSE 'subscription' END AS kind, hub, channel, epoch, "user", name,
    sum(CASE WHEN question = 'came' THEN n ELSE 0 END) AS messages,
    coalesce(max(last) - max(first) + 1 - sum(CASE WHEN question = 'covered' THEN n ELSE 0 END), 0) AS lost,
    sum(CASE WHEN question = 'finished' OR (is_put AND question = 'came') THEN copies - n ELSE 0 END) AS doubled,
    sum(late) AS out_of_order,
    sum(CASE WHEN question = 'came' AND NOT is_put THEN copies - n ELSE 0 END) AS redelivered,
    CASE WHEN is_put THEN 0 ELSE greatest(sum(CASE question WHEN 'came' THEN n WHEN 'over' THEN -n ELSE 0 END), 0) END AS waiting,
    sum(CASE WHEN question = 'dead' THEN n ELSE 0 END) AS dead,
    sum(CASE WHEN question = 'expired' THEN n ELSE 0 END) AS expired, max(first) AS first, max(last) AS last, min(since) AS since
  FROM counted GROUP BY hub, channel, epoch, "user", name, is_put
  UNION ALL
  SELECT 'session', hub, channel, NULL, NULL, name, 0, sum(count), 0, 0, 0, 0, 0, 0, NULL, NULL, min(began)
  FROM audit_totals WHERE kind = 'message.dropped' GROUP BY hub, channel, name
)
SELECT *, CASE WHEN lost > 0 THEN 'lost' WHEN doubled > 0 THEN 'doubled' WHEN out_of_order > 0 THEN 'out of order'
    WHEN waiting > 0 THEN 'waiting' ELSE 'exactly once' END AS verdict
FROM figures
