-- Ownership. Taking a partition over raises its term; every write checks it.
CREATE TABLE partitions (
    partition_id BIGINT NOT NULL PRIMARY KEY,
    owner {text} NOT NULL,
    term BIGINT NOT NULL
){updated_often};

-- Where each channel stands. `head` never follows from the messages, which retention deletes;
-- `first_serial` is the oldest that is left; `high_at` the latest time of publication so far.
CREATE TABLE channels (
    id {identity},
    hub {text} NOT NULL,
    name {text} NOT NULL,
    epoch {text} NOT NULL,
    head BIGINT NOT NULL,
    first_serial BIGINT NOT NULL,
    high_at BIGINT NOT NULL,
    UNIQUE (hub, name)
){updated_often};

-- `high_at` is the latest `published_at` up to and including this message. It rises with the
-- serial even where the clock was set back, so that reads by time can find their start by halving.
CREATE TABLE messages (
    channel_id BIGINT NOT NULL,
    serial BIGINT NOT NULL,
    published_at BIGINT NOT NULL,
    high_at BIGINT NOT NULL,
    id {text} NOT NULL,
    event {text} NOT NULL,
    content_type {text} NOT NULL,
    publisher {text},
    flags BIGINT NOT NULL,
    attributes {blob},
    payload {blob} NOT NULL
);
CREATE UNIQUE INDEX messages_by_serial ON messages (channel_id, serial);
-- The few that were published under a clock that had been set back.
CREATE INDEX messages_late ON messages (channel_id, serial) WHERE published_at < high_at;

-- Payload bytes of each hub's messages, kept up in the transactions that change them.
CREATE TABLE hub_usage (
    hub {text} NOT NULL PRIMARY KEY,
    stored_bytes BIGINT NOT NULL
){updated_often};

CREATE TABLE retained (
    hub {text} NOT NULL,
    channel {text} NOT NULL,
    expires_at BIGINT NOT NULL,
    message {blob} NOT NULL,
    PRIMARY KEY (hub, channel)
);
CREATE INDEX retained_by_expiry ON retained (expires_at);

CREATE TABLE settings (
    kind {text} NOT NULL,
    hub {text} NOT NULL,
    name {text} NOT NULL,
    value {blob} NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (kind, hub, name)
);

CREATE TABLE sessions (
    key_hash {blob} NOT NULL PRIMARY KEY,
    hub {text} NOT NULL,
    session_id {text} NOT NULL,
    state {blob} NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX sessions_by_expiry ON sessions (expires_at);

CREATE TABLE push_tokens (
    hub {text} NOT NULL,
    platform {text} NOT NULL,
    token {text} NOT NULL,
    user_id {text} NOT NULL,
    PRIMARY KEY (hub, platform, token)
);
CREATE INDEX push_tokens_by_user ON push_tokens (hub, user_id);
