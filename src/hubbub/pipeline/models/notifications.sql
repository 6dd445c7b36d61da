-- How many notifications were created, how many are read, and how soon?
-- grain: hub, day
-- partition: day(day)
-- reads: notification_facts
-- columns: text hub, whole created unread read_min, real read_mean read_stddev read_p50 read_p90 read_p99, whole read_max read_count, text day
-- A notification counts on the day on which it was created, also if it is read later.
WITH entries AS (
  SELECT hub, day, entry.key AS bucket, sum(entry.value) AS n
  FROM (SELECT hub, day_name(time) AS day, explode(map_entries(read_buckets)) AS entry FROM notification_facts) AS each_one
  GROUP BY hub, day, entry.key
), cumulated AS (
  SELECT *, sum(n) OVER (PARTITION BY hub, day ORDER BY bucket) AS seen, sum(n) OVER (PARTITION BY hub, day) AS every
  FROM entries
), percentiles AS (
  SELECT hub, day, min(CASE WHEN seen >= ceil(every * 0.5) THEN bucket END) AS b50,
    min(CASE WHEN seen >= ceil(every * 0.9) THEN bucket END) AS b90,
    min(CASE WHEN seen >= ceil(every * 0.99) THEN bucket END) AS b99
  FROM cumulated GROUP BY hub, day
), sums AS (
  SELECT hub, day_name(time) AS day, sum(created) AS created, sum(read_count) AS measured, min(read_min) AS low,
    max(read_max) AS high, sum(read_sum) AS total, sum(read_squares) AS squares
  FROM notification_facts GROUP BY hub, day_name(time)
)
SELECT hub, created, greatest(created - measured, 0) AS unread, low AS read_min, mean_of(total, measured) AS read_mean,
  deviation(squares, total, measured) AS read_stddev,
  percentile_of(b50, low, high) AS read_p50, percentile_of(b90, low, high) AS read_p90,
  percentile_of(b99, low, high) AS read_p99, high AS read_max, measured AS read_count, day
FROM sums LEFT JOIN percentiles USING (hub, day)
