-- How often does each adapter get a message through, and what usually goes wrong?
-- grain: hub, adapter, policy, day
-- partition: day(day)
-- reads: attempts
-- columns: text hub adapter policy, whole attempts attempts_ok deliveries delivered delivered_at_once, real success, text usual_failure, whole duration_min, real duration_mean duration_stddev duration_p50 duration_p90 duration_p99, whole duration_max duration_count, text day
-- A delivery is one message to one peer or subscription. It is delivered if any attempt of the day succeeded, and at
-- once if the first one did. Webhooks count as an adapter `webhook`.
WITH named AS (
  SELECT hub, coalesce(adapter, CASE WHEN kind = 'webhook.attempt' THEN 'webhook' END, technology) AS adapter, policy,
    day_name("at") AS day, message_id, coalesce(peer, subscription, '') AS target, outcome = 'ok' AS ok,
    coalesce(attempt, 1) = 1 AS first_try, coalesce(reason, outcome) AS why, duration
  FROM attempts
), failures AS (         -- what went wrong most often with each delivery
  SELECT hub, adapter, policy, day, message_id, target, why,
    row_number() OVER (PARTITION BY hub, adapter, policy, day, message_id, target ORDER BY count(*) DESC, why) AS place
  FROM named WHERE NOT ok GROUP BY hub, adapter, policy, day, message_id, target, why
), usual AS (
  SELECT hub, adapter, policy, day, why,
    row_number() OVER (PARTITION BY hub, adapter, policy, day ORDER BY count(*) DESC, why) AS place
  FROM failures WHERE place = 1 GROUP BY hub, adapter, policy, day, why
), tried AS (
  SELECT hub, adapter, policy, day, count(*) AS attempts, sum(CASE WHEN ok THEN 1 ELSE 0 END) AS attempts_ok,
    max(CASE WHEN ok THEN 1 ELSE 0 END) AS delivered, max(CASE WHEN ok AND first_try THEN 1 ELSE 0 END) AS at_once
  FROM named GROUP BY hub, adapter, policy, day, message_id, target
), buckets AS (
  SELECT hub, adapter, policy, day, bucket_of(duration) AS bucket, count(*) AS n, min(duration) AS low,
    max(duration) AS high, sum(duration) AS total, sum(CAST(duration AS DOUBLE) * duration) AS squares
  FROM named WHERE duration IS NOT NULL GROUP BY hub, adapter, policy, day, bucket_of(duration)
), cumulated AS (
  SELECT *, sum(n) OVER (PARTITION BY hub, adapter, policy, day ORDER BY bucket) AS seen,
    sum(n) OVER (PARTITION BY hub, adapter, policy, day) AS every
  FROM buckets
), parts AS (
  SELECT hub, adapter, policy, day, attempts, attempts_ok, 1 AS deliveries, delivered, at_once,
    CAST(NULL AS VARCHAR(1000)) AS why, 0 AS measured, CAST(NULL AS BIGINT) AS low, CAST(NULL AS BIGINT) AS high,
    CAST(NULL AS BIGINT) AS total, CAST(NULL AS DOUBLE) AS squares, CAST(NULL AS INTEGER) AS b50,
    CAST(NULL AS INTEGER) AS b90, CAST(NULL AS INTEGER) AS b99
  FROM tried
  UNION ALL
  SELECT hub, adapter, policy, day, 0, 0, 0, 0, 0, why, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM usual WHERE place = 1
  UNION ALL
  SELECT hub, adapter, policy, day, 0, 0, 0, 0, 0, NULL, n, low, high, total, squares,
    CASE WHEN seen >= ceil(every * 0.5) THEN bucket END, CASE WHEN seen >= ceil(every * 0.9) THEN bucket END,
    CASE WHEN seen >= ceil(every * 0.99) THEN bucket END
  FROM cumulated
), summed AS (
  SELECT hub, adapter, policy, day, sum(attempts) AS attempts, sum(attempts_ok) AS attempts_ok, sum(deliveries) AS deliveries,
    sum(delivered) AS delivered, sum(at_once) AS at_once, max(why) AS why, sum(measured) AS measured, min(low) AS low,
    max(high) AS high, sum(total) AS total, sum(squares) AS squares, min(b50) AS b50, min(b90) AS b90, min(b99) AS b99
  FROM parts GROUP BY hub, adapter, policy, day
)
SELECT hub, adapter, policy, attempts, attempts_ok, deliveries, delivered, at_once AS delivered_at_once,
  CAST(delivered AS DOUBLE) / deliveries AS success, why AS usual_failure, low AS duration_min,
  mean_of(total, measured) AS duration_mean,
  deviation(squares, total, measured) AS duration_stddev,
  percentile_of(b50, low, high) AS duration_p50,
  percentile_of(b90, low, high) AS duration_p90,
  percentile_of(b99, low, high) AS duration_p99, high AS duration_max, measured AS duration_count, day
FROM summed
