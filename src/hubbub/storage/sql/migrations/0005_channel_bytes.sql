-- Payload bytes of each channel's messages, kept up in the transactions that change them, so that
-- a limit of size needs no sum over all of them.
ALTER TABLE channels ADD COLUMN stored_bytes BIGINT NOT NULL DEFAULT 0;
UPDATE channels SET stored_bytes = coalesce(
    (SELECT sum(length(payload)) FROM messages WHERE channel_id = channels.id), 0
);
