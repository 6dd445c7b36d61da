-- Channels with an owner; `record` is the hChannel, in MessagePack.
CREATE TABLE channel_records (
    hub {text} NOT NULL,
    channel {text} NOT NULL,
    owner {text} NOT NULL,
    record {blob} NOT NULL,
    PRIMARY KEY (hub, channel)
);

-- Users who are subscribed with all of their sessions.
CREATE TABLE user_subscriptions (
    hub {text} NOT NULL,
    channel {text} NOT NULL,
    user_id {text} NOT NULL,
    PRIMARY KEY (hub, channel, user_id)
);
CREATE INDEX user_subscriptions_by_user ON user_subscriptions (hub, user_id, channel);
