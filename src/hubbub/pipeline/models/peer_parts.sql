-- What did each peer do in each hour?
-- grain: hub, peer, time, bucket
-- partition: hour(time)
-- reads: messages, attempts, sessions.opened_at, linked_messages.at, linked_messages.asked_at
-- columns: text hub peer, time time, whole bucket n messages bytes attempts attempts_ok sessions session_time questions_answered low high total, real squares, time first_at last_at
-- A row without a bucket has the sums, a row with one the response times in that bucket. A peer is the sender that a
-- message names, else the user who published it, else the author that it names.
WITH parts AS (
  SELECT hub, coalesce(sender, "user", author) AS peer, hour_of("at") AS time, CAST(NULL AS INTEGER) AS bucket,
    CAST(NULL AS BIGINT) AS took, 1 AS messages, coalesce(size, 0) AS bytes, 0 AS attempts, 0 AS attempts_ok, 0 AS sessions,
    0 AS session_time, 0 AS questions_answered, "at" AS first_at, "at" AS last_at
  FROM messages
  UNION ALL
  SELECT hub, peer, hour_of("at"), NULL, NULL, 0, 0, 1, CASE WHEN outcome = 'ok' THEN 1 ELSE 0 END, 0, 0, 0, NULL, NULL
  FROM attempts
  UNION ALL
  SELECT hub, "user", hour_of(opened_at), NULL, NULL, 0, 0, 0, 0, 1, coalesce(duration, 0), 0, opened_at,
    coalesce(closed_at, opened_at)
  FROM sessions
  UNION ALL
  SELECT hub, peer, hour_of("at"), bucket_of(response_time), response_time, 0, 0, 0, 0, 0, 0, 0, NULL, NULL
  FROM linked_messages WHERE how IS NOT NULL AND asker IS DISTINCT FROM peer AND response_time IS NOT NULL
  UNION ALL
  SELECT hub, asker, hour_of(asked_at), NULL, NULL, 0, 0, 0, 0, 0, 0, count(DISTINCT question_id), NULL, NULL
  FROM linked_messages WHERE how IS NOT NULL AND asker IS DISTINCT FROM peer AND asked_at IS NOT NULL
  GROUP BY hub, asker, hour_of(asked_at)
)
SELECT hub, peer, time, bucket, count(took) AS n, sum(messages) AS messages, sum(bytes) AS bytes, sum(attempts) AS attempts,
  sum(attempts_ok) AS attempts_ok, sum(sessions) AS sessions, sum(session_time) AS session_time,
  sum(questions_answered) AS questions_answered, min(took) AS low, max(took) AS high, sum(took) AS total,
  sum(CAST(took AS DOUBLE) * took) AS squares, min(first_at) AS first_at, max(last_at) AS last_at
FROM parts WHERE peer IS NOT NULL GROUP BY hub, peer, time, bucket
