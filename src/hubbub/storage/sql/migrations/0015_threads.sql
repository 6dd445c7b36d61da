-- Conversations of channels. `threads` has one row for each that has messages; `status` is that of
-- the newest message that sets one, the message at `state_serial`.
CREATE TABLE threads (
    channel_id BIGINT NOT NULL,
    conversation {text} NOT NULL,
    first_serial BIGINT NOT NULL,
    last_serial BIGINT NOT NULL,
    message_count BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    state_serial BIGINT,
    status {text},
    PRIMARY KEY (channel_id, conversation)
);
CREATE INDEX threads_by_first ON threads (channel_id, first_serial);
CREATE INDEX threads_by_status ON threads (channel_id, status, first_serial)
    WHERE status IS NOT NULL;

CREATE TABLE thread_messages (
    channel_id BIGINT NOT NULL,
    conversation {text} NOT NULL,
    serial BIGINT NOT NULL,
    PRIMARY KEY (channel_id, conversation, serial)
){clustered};

-- The serial up to which a channel's messages are in these two tables. An earlier version of Hubbub
-- that writes to the database leaves it behind the head.
ALTER TABLE channels ADD COLUMN threaded BIGINT NOT NULL DEFAULT 0;
