-- How long do messages take to reach subscribers, by channel, technology and hour?
-- grain: hub, channel, technology, hour
-- partition: hour(hour)
-- reads: latency_parts
-- columns: text hub channel technology, whole deliveries bytes latency_min, real latency_mean latency_stddev latency_p50 latency_p90 latency_p99, whole latency_max latency_count, text hour
WITH cumulated AS (
  SELECT *, sum(n) OVER (PARTITION BY hub, channel, technology, time ORDER BY bucket NULLS FIRST) AS seen,
    sum(n) OVER (PARTITION BY hub, channel, technology, time) AS every
  FROM latency_parts
), summed AS (
  SELECT hub, channel, technology, time, sum(deliveries) AS deliveries, sum(bytes) AS bytes, sum(measured) AS measured,
    min(low) AS low, max(high) AS high, sum(total) AS total, sum(squares) AS squares,
    min(CASE WHEN seen >= ceil(every * 0.5) THEN bucket END) AS b50,
    min(CASE WHEN seen >= ceil(every * 0.9) THEN bucket END) AS b90,
    min(CASE WHEN seen >= ceil(every * 0.99) THEN bucket END) AS b99
  FROM cumulated GROUP BY hub, channel, technology, time
)
SELECT hub, channel, technology, deliveries, bytes, low AS latency_min, mean_of(total, measured) AS latency_mean,
  deviation(squares, total, measured) AS latency_stddev,
  percentile_of(b50, low, high) AS latency_p50,
  percentile_of(b90, low, high) AS latency_p90,
  percentile_of(b99, low, high) AS latency_p99,
  high AS latency_max, measured AS latency_count, hour_name(time) AS hour
FROM summed
