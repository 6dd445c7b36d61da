-- Messages of the communication service, by id. The messages themselves are in the channel
-- `comm:log`, at `serial`. `state`: 0 decided, 1 not planned yet, 2 deliveries are planned (`plan`,
-- in MessagePack), 3 held until its sender logs in. `digest` tells messages with the same id apart.
CREATE TABLE comm_messages (
    hub {text} NOT NULL,
    id {text} NOT NULL,
    serial BIGINT NOT NULL,
    at BIGINT NOT NULL,
    type {text} NOT NULL,
    subtype {text} NOT NULL,
    sender {text} NOT NULL,
    receiver {text} NOT NULL,
    conversation {text} NOT NULL,
    digest {blob} NOT NULL,
    state BIGINT NOT NULL,
    plan {blob},
    PRIMARY KEY (hub, id)
);
CREATE INDEX comm_messages_by_serial ON comm_messages (hub, serial);
CREATE INDEX comm_messages_open ON comm_messages (hub, serial) WHERE state > 0;

-- Copies of messages that are under way to an address of a peer, or that could not be delivered.
-- `receiver` is the one whose policy counts the outcome, empty for none. `state`: 0 due, 1 arrived,
-- 2 failed.
CREATE TABLE comm_deliveries (
    hub {text} NOT NULL,
    key {text} NOT NULL,
    message_id {text} NOT NULL,
    serial BIGINT NOT NULL,
    ordinal BIGINT NOT NULL,
    receiver {text} NOT NULL,
    peer {text} NOT NULL,
    adapter {text} NOT NULL,
    parameters {blob} NOT NULL,
    state BIGINT NOT NULL,
    reason {text} NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (hub, key)
);
CREATE INDEX comm_deliveries_by_serial ON comm_deliveries (hub, state, serial, ordinal);

-- How peers want to be reached, as JSON.
CREATE TABLE comm_peers (
    hub {text} NOT NULL,
    id {text} NOT NULL,
    info {blob} NOT NULL,
    PRIMARY KEY (hub, id)
);

CREATE TABLE comm_collectives (
    hub {text} NOT NULL,
    id {text} NOT NULL,
    policy {text} NOT NULL,
    PRIMARY KEY (hub, id)
);
CREATE TABLE comm_members (
    hub {text} NOT NULL,
    collective {text} NOT NULL,
    peer {text} NOT NULL,
    position BIGINT NOT NULL,
    PRIMARY KEY (hub, collective, peer)
);

-- Tokens of peers, hashed; one for each peer.
CREATE TABLE comm_tokens (
    hub {text} NOT NULL,
    peer {text} NOT NULL,
    token_hash {blob} NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (hub, peer)
);
