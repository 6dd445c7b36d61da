-- Tokens of other platforms were never sent to; those of browsers were kept without being read, and
-- pages register theirs again whenever they are opened.
DELETE FROM push_tokens WHERE platform NOT IN ('fcm', 'apns');

-- `token` tells the device from others of its platform: for a browser it is the endpoint. At `due_at`
-- the token goes; tokens from before count as registered when this version came out.
ALTER TABLE push_tokens ADD COLUMN p256dh {blob};
ALTER TABLE push_tokens ADD COLUMN auth {blob};
ALTER TABLE push_tokens ADD COLUMN topic {text};
ALTER TABLE push_tokens ADD COLUMN environment {text};
ALTER TABLE push_tokens ADD COLUMN vapid_key {text};
ALTER TABLE push_tokens ADD COLUMN registered_at BIGINT NOT NULL DEFAULT 1794873600000;
ALTER TABLE push_tokens ADD COLUMN expires_at BIGINT;
ALTER TABLE push_tokens ADD COLUMN succeeded_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE push_tokens ADD COLUMN failures BIGINT NOT NULL DEFAULT 0;
ALTER TABLE push_tokens ADD COLUMN failing_since BIGINT NOT NULL DEFAULT 0;
ALTER TABLE push_tokens ADD COLUMN due_at BIGINT NOT NULL DEFAULT 1818201600000;
CREATE INDEX push_tokens_due ON push_tokens (due_at);

-- Users who are pushed to without being subscribed; `acting` is the identity, in MessagePack.
CREATE TABLE push_followings (
    hub {text} NOT NULL,
    channel {text} NOT NULL,
    user_id {text} NOT NULL,
    acting {blob} NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (hub, channel, user_id)
);
CREATE INDEX push_followings_by_user ON push_followings (hub, user_id, channel);

-- Keys and accounts for push services, sealed with a key that is not in the database; `about` is what
-- may be told of them, as JSON.
CREATE TABLE push_credentials (
    hub {text} NOT NULL,
    name {text} NOT NULL,
    sealed {blob} NOT NULL,
    about {text} NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (hub, name)
);
