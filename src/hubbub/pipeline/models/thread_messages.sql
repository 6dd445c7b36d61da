-- Which messages make up a thread, in order?
-- grain: hub, thread, position
-- partition: view
-- reads: linked_messages
-- columns: text hub thread, whole position, text message_id, time at, text channel peer conversation_id refers_to, whole response_time serial, text hour
-- The hour is that of the thread's first message.
SELECT hub, thread, position, message_id, "at", channel, peer, conversation_id, refers_to, response_time, serial,
  hour_name(thread_began) AS hour
FROM linked_messages
