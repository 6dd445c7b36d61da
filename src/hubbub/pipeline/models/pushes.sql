-- How often does each push platform take a message, and what becomes of the rest?
-- grain: hub, platform, day
-- partition: day(day)
-- reads: push_facts
-- columns: text hub platform, whole attempts ok retry gone refused credentials dropped, real success, whole duration_min, real duration_mean duration_stddev duration_p50 duration_p90 duration_p99, whole duration_max duration_count, text day
WITH parts AS (
  SELECT hub, platform, day_name(time) AS day, outcome, attempts, duration_count AS measured, duration_min AS low,
    duration_max AS high, duration_sum AS total, duration_squares AS squares, CAST(NULL AS INTEGER) AS bucket,
    CAST(NULL AS BIGINT) AS n
  FROM push_facts
  UNION ALL
  SELECT hub, platform, day, NULL, 0, 0, NULL, NULL, NULL, NULL, entry.key, sum(entry.value)
  FROM (SELECT hub, platform, day_name(time) AS day, explode(map_entries(duration_buckets)) AS entry FROM push_facts) AS entries
  GROUP BY hub, platform, day, entry.key
), cumulated AS (
  SELECT *, sum(n) OVER (PARTITION BY hub, platform, day ORDER BY bucket NULLS FIRST) AS seen,
    sum(n) OVER (PARTITION BY hub, platform, day) AS every
  FROM parts
), summed AS (
  SELECT hub, platform, day, sum(attempts) AS attempts, sum(CASE WHEN outcome = 'ok' THEN attempts ELSE 0 END) AS ok,
    sum(CASE WHEN outcome = 'retry' THEN attempts ELSE 0 END) AS retry,
    sum(CASE WHEN outcome = 'gone' THEN attempts ELSE 0 END) AS gone,
    sum(CASE WHEN outcome = 'refused' THEN attempts ELSE 0 END) AS refused,
    sum(CASE WHEN outcome = 'credentials' THEN attempts ELSE 0 END) AS credentials,
    sum(CASE WHEN outcome = 'dropped' THEN attempts ELSE 0 END) AS dropped, sum(measured) AS measured, min(low) AS low,
    max(high) AS high, sum(total) AS total, sum(squares) AS squares,
    min(CASE WHEN seen >= ceil(every * 0.5) THEN bucket END) AS b50,
    min(CASE WHEN seen >= ceil(every * 0.9) THEN bucket END) AS b90,
    min(CASE WHEN seen >= ceil(every * 0.99) THEN bucket END) AS b99
  FROM cumulated GROUP BY hub, platform, day
)
SELECT hub, platform, attempts, ok, retry, gone, refused, credentials, dropped, CAST(ok AS DOUBLE) / attempts AS success,
  low AS duration_min, mean_of(total, measured) AS duration_mean,
  deviation(squares, total, measured) AS duration_stddev,
  percentile_of(b50, low, high) AS duration_p50,
  percentile_of(b90, low, high) AS duration_p90,
  percentile_of(b99, low, high) AS duration_p99, high AS duration_max, measured AS duration_count, day
FROM summed
