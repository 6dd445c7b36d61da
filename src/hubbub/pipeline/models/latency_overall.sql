-- Which technologies and channels are fast, and which are slow, over all time?
-- grain: hub, channel, technology
-- partition: all
-- reads: latency_parts
-- columns: text hub channel technology, whole deliveries bytes latency_min, real latency_mean latency_stddev latency_p50 latency_p90 latency_p99, whole latency_max latency_count
-- The row without a channel is the sum over all channels of the hub.
WITH buckets AS (
  SELECT hub, channel, technology, bucket, sum(n) AS n, sum(deliveries) AS deliveries, sum(bytes) AS bytes,
    sum(measured) AS measured, min(low) AS low, max(high) AS high, sum(total) AS total, sum(squares) AS squares
  FROM latency_parts GROUP BY hub, channel, technology, bucket
), both_kinds AS (
  SELECT * FROM buckets WHERE channel IS NOT NULL
  UNION ALL
  SELECT hub, NULL, technology, bucket, sum(n), sum(deliveries), sum(bytes), sum(measured), min(low), max(high), sum(total),
    sum(squares)
  FROM buckets GROUP BY hub, technology, bucket
), cumulated AS (
  SELECT *, sum(n) OVER (PARTITION BY hub, channel, technology ORDER BY bucket NULLS FIRST) AS seen,
    sum(n) OVER (PARTITION BY hub, channel, technology) AS every
  FROM both_kinds
), summed AS (
  SELECT hub, channel, technology, sum(deliveries) AS deliveries, sum(bytes) AS bytes, sum(measured) AS measured,
    min(low) AS low, max(high) AS high, sum(total) AS total, sum(squares) AS squares,
    min(CASE WHEN seen >= ceil(every * 0.5) THEN bucket END) AS b50,
    min(CASE WHEN seen >= ceil(every * 0.9) THEN bucket END) AS b90,
    min(CASE WHEN seen >= ceil(every * 0.99) THEN bucket END) AS b99
  FROM cumulated GROUP BY hub, channel, technology
)
SELECT hub, channel, technology, deliveries, bytes, low AS latency_min, mean_of(total, measured) AS latency_mean,
  deviation(squares, total, measured) AS latency_stddev,
  percentile_of(b50, low, high) AS latency_p50,
  percentile_of(b90, low, high) AS latency_p90,
  percentile_of(b99, low, high) AS latency_p99, high AS latency_max, measured AS latency_count
FROM summed
