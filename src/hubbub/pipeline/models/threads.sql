-- Which threads are there, who took part, and how did they go?
-- grain: hub, thread
-- partition: hour(first_at)
-- reads: linked_messages.thread_began
-- columns: text hub thread started_by, time first_at last_at, whole duration messages participants channels conversations, flag crosses, whole answers, real response_mean, text hour
SELECT hub, thread, max(CASE WHEN position = 1 THEN peer END) AS started_by, min("at") AS first_at, max("at") AS last_at,
  micros(max("at")) - micros(min("at")) AS duration, count(*) AS messages, count(DISTINCT peer) AS participants,
  count(DISTINCT channel) AS channels, count(DISTINCT conversation_id) AS conversations,
  count(DISTINCT channel) > 1 OR count(DISTINCT conversation_id) > 1 AS crosses,
  sum(CASE WHEN refers_to IS NOT NULL OR response_time IS NOT NULL THEN 1 ELSE 0 END) AS answers,
  avg(response_time) AS response_mean, hour_name(min("at")) AS hour
FROM linked_messages GROUP BY hub, thread
