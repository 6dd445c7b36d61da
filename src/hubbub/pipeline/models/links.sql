-- Which messages belong to a conversation or answer another message?
-- grain: hub, message_id, at
-- partition: view
-- reads: linked_messages
-- columns: text hub message_id, time at, whole serial, text channel peer conversation_id refers_to hour
SELECT hub, message_id, "at", serial, channel, peer, conversation_id, refers_to, hour_name("at") AS hour
FROM linked_messages WHERE conversation_id IS NOT NULL OR refers_to IS NOT NULL
