-- Who answered what, and after how long?
-- grain: hub, answer_id, answered_at
-- partition: view
-- reads: linked_messages
-- columns: text hub answer_id question_id how asker answerer question_channel channel question_conversation_id conversation_id, time asked_at answered_at, whole response_time, text hour
-- A message answers the one that it refers to; without a reference, the message before it in its conversation, if
-- somebody else wrote that.
SELECT hub, message_id AS answer_id, question_id, how, asker, peer AS answerer, question_channel, channel,
  question_conversation_id, conversation_id, asked_at, "at" AS answered_at, response_time, hour_name("at") AS hour
FROM linked_messages WHERE how IS NOT NULL
