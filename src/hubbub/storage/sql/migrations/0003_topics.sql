-- Who puts messages, so that a repeat is known however late it comes. The last sequence is that of
-- the producer's newest message; once retention has deleted that, `sequence` keeps it.
CREATE TABLE producers (
    id {identity},
    hub {text} NOT NULL,
    channel {text} NOT NULL,
    principal {text} NOT NULL,
    producer {text} NOT NULL,
    fence BIGINT NOT NULL,
    sequence BIGINT NOT NULL,
    UNIQUE (hub, channel, principal, producer)
);
ALTER TABLE messages ADD COLUMN producer_id BIGINT;
ALTER TABLE messages ADD COLUMN sequence BIGINT;
CREATE UNIQUE INDEX messages_by_producer ON messages (producer_id, sequence)
    WHERE producer_id IS NOT NULL;

-- Durable subscriptions: everything up to `floor` is done; `state` holds the exceptions.
CREATE TABLE cursors (
    hub {text} NOT NULL,
    channel {text} NOT NULL,
    owner {text} NOT NULL,
    name {text} NOT NULL,
    floor BIGINT NOT NULL,
    state {blob} NOT NULL,
    PRIMARY KEY (hub, channel, owner, name)
){updated_often};
CREATE INDEX cursors_by_owner ON cursors (hub, owner);
