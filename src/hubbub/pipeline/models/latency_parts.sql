-- What are `latency` and `latency_overall` added up from?
-- grain: hub, channel, technology, time, bucket
-- partition: hour(time)
-- reads: deliveries, attempts, receipts
-- columns: text hub channel technology, time time, whole bucket n deliveries bytes measured low high total, real squares
-- A row without a bucket has the sums, a row with one the latencies in that bucket.
WITH answered AS (       -- by webhooks; the latency ends with the callback's response
  SELECT hub, channel, technology, hour_of("at") AS time, greatest(micros("at") - micros(published_at), 0) AS took FROM attempts
  WHERE kind = 'webhook.attempt' AND outcome = 'ok' AND published_at IS NOT NULL
), sent AS (             -- to live subscribers, and to durable subscriptions that ask for messages
  SELECT hub, channel, technology, hour_of("at") AS time, count, size, latency_min, latency_max, latency_sum, latency_squares,
    latency_buckets FROM deliveries
  UNION ALL
  SELECT hub, channel, technology, hour_of("at"), count, size, latency_min, latency_max, latency_sum, latency_squares,
    latency_buckets FROM receipts WHERE kind = 'message.received' AND technology IS NOT NULL AND delivery = 1
), parts AS (
  SELECT hub, channel, technology, time, CAST(NULL AS INTEGER) AS bucket, CAST(NULL AS BIGINT) AS n, count AS deliveries,
    size AS bytes, CASE WHEN latency_min IS NULL THEN 0 ELSE count END AS measured,
    latency_min AS low, latency_max AS high, latency_sum AS total, latency_squares AS squares
  FROM sent
  UNION ALL
  SELECT hub, channel, technology, time, NULL, NULL, 1, 0, 1, took, took, took, CAST(took AS DOUBLE) * took FROM answered
  UNION ALL
  SELECT hub, channel, technology, time, bucket_of(took), 1, 0, 0, 0, NULL, NULL, NULL, NULL FROM answered
  UNION ALL
  SELECT hub, channel, technology, time, entry.key, entry.value, 0, 0, 0, NULL, NULL, NULL, NULL
  FROM (SELECT hub, channel, technology, time, explode(map_entries(latency_buckets)) AS entry FROM sent) AS entries
)
SELECT hub, channel, technology, time, bucket, sum(n) AS n, sum(deliveries) AS deliveries, sum(bytes) AS bytes,
  sum(measured) AS measured, min(low) AS low, max(high) AS high, sum(total) AS total, sum(squares) AS squares
FROM parts GROUP BY hub, channel, technology, time, bucket
