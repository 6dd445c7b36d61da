-- How many sessions were opened in each hour, and how long did they last?
-- grain: hub, time
-- partition: hour(time)
-- reads: session_parts
-- columns: text hub, time time, whole sessions still_open duration_min, real duration_mean duration_stddev duration_p50 duration_p90 duration_p99, whole duration_max duration_count, text hour
WITH buckets AS (
  SELECT hub, time AS part, bucket, sum(sessions) AS sessions, sum(still_open) AS still_open, sum(n) AS n,
    min(low) AS low, max(high) AS high, sum(total) AS total, sum(squares) AS squares
  FROM session_parts GROUP BY hub, time, bucket
), cumulated AS (
  SELECT *, sum(n) OVER (PARTITION BY hub, part ORDER BY bucket NULLS FIRST) AS seen,
    sum(n) OVER (PARTITION BY hub, part) AS every
  FROM buckets
), summed AS (
  SELECT hub, part, sum(sessions) AS sessions, sum(still_open) AS still_open, sum(n) AS measured, min(low) AS low,
    max(high) AS high, sum(total) AS total, sum(squares) AS squares,
    min(CASE WHEN seen >= ceil(every * 0.5) THEN bucket END) AS b50,
    min(CASE WHEN seen >= ceil(every * 0.9) THEN bucket END) AS b90,
    min(CASE WHEN seen >= ceil(every * 0.99) THEN bucket END) AS b99
  FROM cumulated GROUP BY hub, part
)
SELECT hub, part AS time, sessions, still_open, low AS duration_min, mean_of(total, measured) AS duration_mean,
  deviation(squares, total, measured) AS duration_stddev,
  percentile_of(b50, low, high) AS duration_p50,
  percentile_of(b90, low, high) AS duration_p90,
  percentile_of(b99, low, high) AS duration_p99, high AS duration_max, measured AS duration_count,
  hour_name(part) AS hour
FROM summed
