-- Who are the peers: how much do they write, when, and how fast do they answer?
-- grain: hub, peer
-- partition: all
-- reads: peer_totals
-- columns: text hub peer, time first_at last_at, whole active_hours busiest_hour messages bytes sessions session_time questions_answered answers attempts attempts_ok, real reached, whole response_min, real response_mean response_stddev response_p50 response_p90 response_p99, whole response_max response_count
WITH parts AS (
  SELECT hub, peer, hour, bucket, sum(n) AS n, sum(messages_then) AS messages_then, sum(messages) AS messages, sum(bytes) AS bytes,
    sum(attempts) AS attempts, sum(attempts_ok) AS attempts_ok, sum(sessions) AS sessions, sum(session_time) AS session_time,
    sum(questions_answered) AS questions_answered, sum(active_hours) AS active_hours, min(low) AS low, max(high) AS high,
    sum(total) AS total, sum(squares) AS squares, min(first_at) AS first_at, max(last_at) AS last_at
  FROM peer_totals GROUP BY hub, peer, hour, bucket
), placed AS (
  SELECT *, sum(n) OVER (PARTITION BY hub, peer ORDER BY bucket NULLS FIRST) AS seen,
    sum(n) OVER (PARTITION BY hub, peer) AS every,
    row_number() OVER (PARTITION BY hub, peer ORDER BY messages_then DESC, hour) AS place
  FROM parts
), summed AS (
  SELECT hub, peer, min(first_at) AS first_at, max(last_at) AS last_at, sum(active_hours) AS active_hours,
    max(CASE WHEN place = 1 THEN hour END) AS busiest_hour, sum(messages) AS messages, sum(bytes) AS bytes,
    sum(sessions) AS sessions, sum(session_time) AS session_time, sum(questions_answered) AS questions_answered,
    sum(attempts) AS attempts, sum(attempts_ok) AS attempts_ok, sum(n) AS measured, min(low) AS low, max(high) AS high,
    sum(total) AS total, sum(squares) AS squares,
    min(CASE WHEN bucket IS NOT NULL AND seen >= ceil(every * 0.5) THEN bucket END) AS b50,
    min(CASE WHEN bucket IS NOT NULL AND seen >= ceil(every * 0.9) THEN bucket END) AS b90,
    min(CASE WHEN bucket IS NOT NULL AND seen >= ceil(every * 0.99) THEN bucket END) AS b99
  FROM placed GROUP BY hub, peer
)
SELECT hub, peer, first_at, last_at, active_hours, busiest_hour, messages, bytes, sessions, session_time, questions_answered,
  measured AS answers, attempts, attempts_ok, CASE WHEN attempts > 0 THEN CAST(attempts_ok AS DOUBLE) / attempts END AS reached,
  low AS response_min, mean_of(total, measured) AS response_mean, deviation(squares, total, measured) AS response_stddev,
  percentile_of(b50, low, high) AS response_p50, percentile_of(b90, low, high) AS response_p90,
  percentile_of(b99, low, high) AS response_p99, high AS response_max, measured AS response_count
FROM summed
