-- How many messages and bytes went in and out of each hub, and how fast?
-- grain: hub, time
-- partition: hour(time)
-- reads: traffic_parts
-- columns: text hub, time time, whole messages_in bytes_in messages_out bytes_out dropped latency_min, real latency_mean latency_stddev latency_p50 latency_p90 latency_p99, whole latency_max latency_count, text hour
WITH cumulated AS (
  SELECT *, sum(n) OVER (PARTITION BY hub, time ORDER BY bucket NULLS FIRST) AS seen,
    sum(n) OVER (PARTITION BY hub, time) AS every
  FROM traffic_parts
), summed AS (
  SELECT hub, time, sum(messages_in) AS messages_in, sum(bytes_in) AS bytes_in, sum(messages_out) AS messages_out,
    sum(bytes_out) AS bytes_out, sum(dropped) AS dropped, sum(measured) AS measured, min(low) AS low, max(high) AS high,
    sum(total) AS total, sum(squares) AS squares,
    min(CASE WHEN seen >= ceil(every * 0.5) THEN bucket END) AS b50,
    min(CASE WHEN seen >= ceil(every * 0.9) THEN bucket END) AS b90,
    min(CASE WHEN seen >= ceil(every * 0.99) THEN bucket END) AS b99
  FROM cumulated GROUP BY hub, time
)
SELECT hub, time, messages_in, bytes_in, messages_out, bytes_out, dropped, low AS latency_min,
  mean_of(total, measured) AS latency_mean,
  deviation(squares, total, measured) AS latency_stddev,
  percentile_of(b50, low, high) AS latency_p50,
  percentile_of(b90, low, high) AS latency_p90,
  percentile_of(b99, low, high) AS latency_p99,
  high AS latency_max, measured AS latency_count, hour_name(time) AS hour
FROM summed
