-- What did each peer do in each month?
-- grain: hub, peer, month, hour, bucket
-- partition: month(month)
-- reads: peer_parts
-- columns: text hub peer month, whole hour bucket n messages_then messages bytes attempts attempts_ok sessions session_time questions_answered active_hours low high total, real squares, time first_at last_at
-- A row with an hour of the day has the messages of that hour, a row with a bucket the response times in that bucket.
SELECT hub, peer, month_name(time) AS month, CAST(NULL AS BIGINT) AS hour, bucket, sum(n) AS n, 0 AS messages_then,
  sum(messages) AS messages, sum(bytes) AS bytes, sum(attempts) AS attempts, sum(attempts_ok) AS attempts_ok,
  sum(sessions) AS sessions, sum(session_time) AS session_time, sum(questions_answered) AS questions_answered,
  sum(CASE WHEN messages > 0 THEN 1 ELSE 0 END) AS active_hours, min(low) AS low, max(high) AS high, sum(total) AS total,
  sum(squares) AS squares, min(first_at) AS first_at, max(last_at) AS last_at
FROM peer_parts GROUP BY hub, peer, month_name(time), bucket
UNION ALL
SELECT hub, peer, month_name(time), hour_of_day(time), NULL, 0, sum(messages), 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL,
  NULL, NULL
FROM peer_parts WHERE messages > 0 GROUP BY hub, peer, month_name(time), hour_of_day(time)
