-- How fast does each peer answer, day by day?
-- grain: hub, peer, day
-- partition: day(day)
-- reads: linked_messages
-- columns: text hub peer day, whole answers askers response_min, real response_mean response_stddev response_p50 response_p90 response_p99, whole response_max response_count
-- Answers to oneself, and to messages that the journal lacks, do not count.
WITH answers AS (
  SELECT hub, peer, day_name("at") AS day, asker, response_time AS took FROM linked_messages
  WHERE how IS NOT NULL AND asker IS DISTINCT FROM peer AND peer IS NOT NULL AND response_time IS NOT NULL
), buckets AS (
  SELECT hub, peer, day, bucket_of(took) AS bucket, count(*) AS n, min(took) AS low, max(took) AS high, sum(took) AS total,
    sum(CAST(took AS DOUBLE) * took) AS squares
  FROM answers GROUP BY hub, peer, day, bucket_of(took)
), cumulated AS (
  SELECT *, sum(n) OVER (PARTITION BY hub, peer, day ORDER BY bucket) AS seen,
    sum(n) OVER (PARTITION BY hub, peer, day) AS every
  FROM buckets
), summed AS (
  SELECT hub, peer, day, sum(n) AS measured, min(low) AS low, max(high) AS high, sum(total) AS total, sum(squares) AS squares,
    min(CASE WHEN seen >= ceil(every * 0.5) THEN bucket END) AS b50,
    min(CASE WHEN seen >= ceil(every * 0.9) THEN bucket END) AS b90,
    min(CASE WHEN seen >= ceil(every * 0.99) THEN bucket END) AS b99
  FROM cumulated GROUP BY hub, peer, day
), asked AS (
  SELECT hub, peer, day, count(DISTINCT asker) AS askers FROM answers GROUP BY hub, peer, day
)
SELECT hub, peer, day, measured AS answers, askers, low AS response_min, mean_of(total, measured) AS response_mean,
  deviation(squares, total, measured) AS response_stddev,
  percentile_of(b50, low, high) AS response_p50,
  percentile_of(b90, low, high) AS response_p90,
  percentile_of(b99, low, high) AS response_p99, high AS response_max, measured AS response_count
FROM summed JOIN asked USING (hub, peer, day)
