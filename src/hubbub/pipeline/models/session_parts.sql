-- What are `sessions_hourly` and `sessions_daily` added up from?
-- grain: hub, time, bucket
-- partition: hour(time)
-- reads: sessions.opened_at
-- columns: text hub, time time, whole bucket sessions still_open n low high total, real squares
-- Sessions by the hour in which they were opened, and by the bucket of their duration.
SELECT hub, hour_of(opened_at) AS time, CASE WHEN duration IS NOT NULL THEN bucket_of(duration) END AS bucket,
  count(*) AS sessions, count(*) - count(closed_at) AS still_open, count(duration) AS n, min(duration) AS low,
  max(duration) AS high, sum(duration) AS total, sum(CAST(duration AS DOUBLE) * duration) AS squares
FROM sessions
GROUP BY hub, hour_of(opened_at), CASE WHEN duration IS NOT NULL THEN bucket_of(duration) END
