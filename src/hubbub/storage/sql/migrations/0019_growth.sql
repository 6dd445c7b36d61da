-- What a hub's rows take besides the payloads that `stored_bytes` counts. The version before can read
-- and write this schema: triggers count its rows, too, but for the envelopes of messages that it
-- stores, which count from the next message on.
ALTER TABLE hub_usage ADD COLUMN other_bytes BIGINT NOT NULL DEFAULT 0;

-- Envelopes of messages, which the writer counts itself. Attributes count twice: the index of
-- conversations repeats part of them.
INSERT INTO hub_usage (hub, stored_bytes, other_bytes)
SELECT hub, 0, sum(
    200 + length(messages.id) + length(event) + length(content_type)
    + coalesce(length(publisher), 0) + 2 * coalesce(length(attributes), 0)
) FROM messages JOIN channels ON channels.id = channel_id GROUP BY hub
ON CONFLICT (hub) DO UPDATE SET other_bytes = hub_usage.other_bytes + excluded.other_bytes;
INSERT INTO hub_usage (hub, stored_bytes, other_bytes)
SELECT hub, 0, 200 * count(*) FROM document_puts JOIN producers ON producers.id = producer_id
GROUP BY hub
ON CONFLICT (hub) DO UPDATE SET other_bytes = hub_usage.other_bytes + excluded.other_bytes;

-- Rows that never change after they were written.
COUNT ROWS OF channels AS 200 + length(name);
COUNT ROWS OF producers AS 200 + length(channel) + length(principal) + length(producer);
COUNT ROWS OF user_subscriptions AS 200 + length(channel) + length(user_id);
COUNT ROWS OF comm_members AS 200 + length(collective) + length(peer);

-- Rows that do. Of settings only those of channels can be very many. Notifications and changes of documents count with their channel and document, beside
-- their contents, which the writer counts.
COUNT CHANGING ROWS OF settings AS CASE WHEN kind = 'channel' THEN 200 + length(name) + length(value) ELSE 0 END;
COUNT CHANGING ROWS OF retained AS 200 + length(channel) + length(message);
COUNT CHANGING ROWS OF cursors AS 200 + length(channel) + length(owner) + length(name) + length(state);
COUNT CHANGING ROWS OF notification_channels AS 200 + length(name) + 400 * total;
COUNT CHANGING ROWS OF documents AS 200 + length(channel) + 300 * (version - first_version + 1);
COUNT CHANGING ROWS OF channel_records AS 200 + length(channel) + length(owner) + length(record);
COUNT CHANGING ROWS OF web_topics AS 300 + length(channel) + coalesce(length(url), 0) + coalesce(length(etag), 0) + coalesce(length(last_modified), 0) + coalesce(length(fetch_error), 0);
COUNT CHANGING ROWS OF webhooks AS 400 + length(channel) + length(callback) + length(topic) + coalesce(length(hub_url), 0) + coalesce(length(pending), 0) + coalesce(length(acting), 0) + coalesce(length(secret), 0);
COUNT CHANGING ROWS OF push_tokens AS 300 + length(token) + length(user_id) + coalesce(length(acting), 0);
COUNT CHANGING ROWS OF push_followings AS 200 + length(channel) + length(user_id) + length(acting);
COUNT CHANGING ROWS OF push_credentials AS 200 + length(sealed) + length(about);
COUNT CHANGING ROWS OF comm_messages AS 300 + length(id) + length(sender) + length(receiver) + length(conversation) + coalesce(length(plan), 0);
COUNT CHANGING ROWS OF comm_deliveries AS 300 + length(key) + length(message_id) + length(receiver) + length(peer) + length(parameters) + length(reason);
COUNT CHANGING ROWS OF comm_peers AS 200 + length(id) + length(info);
COUNT CHANGING ROWS OF comm_collectives AS 200 + length(id) + length(policy);
