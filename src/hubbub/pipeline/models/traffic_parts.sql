-- What is `traffic` added up from?
-- grain: hub, time, bucket
-- partition: hour(time)
-- reads: messages, deliveries, attempts, receipts, drops
-- columns: text hub, time time, whole bucket n messages_in bytes_in messages_out bytes_out dropped measured low high total, real squares
-- A row without a bucket has the sums, a row with one the latencies in that bucket.
WITH answered AS (       -- by webhooks; the latency ends with the callback's response
  SELECT hub, slot("at") AS time, greatest(micros("at") - micros(published_at), 0) AS took FROM attempts
  WHERE kind = 'webhook.attempt' AND outcome = 'ok' AND published_at IS NOT NULL
), sent AS (             -- to live subscribers, and to durable subscriptions that ask for messages
  SELECT hub, slot("at") AS time, count, size, latency_min, latency_max, latency_sum, latency_squares, latency_buckets
  FROM deliveries
  UNION ALL
  SELECT hub, slot("at"), count, size, latency_min, latency_max, latency_sum, latency_squares, latency_buckets
  FROM receipts WHERE kind = 'message.received' AND technology IS NOT NULL AND delivery = 1
), parts AS (
  SELECT hub, time, CAST(NULL AS INTEGER) AS bucket, CAST(NULL AS BIGINT) AS n, 0 AS messages_in, 0 AS bytes_in,
    count AS messages_out, size AS bytes_out, 0 AS dropped, CASE WHEN latency_min IS NULL THEN 0 ELSE count END AS measured,
    latency_min AS low, latency_max AS high, latency_sum AS total, latency_squares AS squares
  FROM sent
  UNION ALL
  SELECT hub, time, NULL, NULL, 0, 0, 1, 0, 0, 1, took, took, took, CAST(took AS DOUBLE) * took FROM answered
  UNION ALL
  SELECT hub, slot("at"), NULL, NULL, 1, coalesce(size, 0), 0, 0, 0, 0, NULL, NULL, NULL, NULL FROM messages
  UNION ALL
  SELECT hub, slot("at"), NULL, NULL, 0, 0, 0, 0, coalesce(count, 1), 0, NULL, NULL, NULL, NULL
  FROM drops WHERE kind = 'message.dropped'
  UNION ALL
  SELECT hub, time, bucket_of(took), 1, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL FROM answered
  UNION ALL
  SELECT hub, time, entry.key, entry.value, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL
  FROM (SELECT hub, time, explode(map_entries(latency_buckets)) AS entry FROM sent) AS entries
)
SELECT hub, time, bucket, sum(n) AS n, sum(messages_in) AS messages_in, sum(bytes_in) AS bytes_in,
  sum(messages_out) AS messages_out, sum(bytes_out) AS bytes_out, sum(dropped) AS dropped, sum(measured) AS measured,
  min(low) AS low, max(high) AS high, sum(total) AS total, sum(squares) AS squares
FROM parts GROUP BY hub, time, bucket
