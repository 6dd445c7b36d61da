-- The serial up to which the channel's messages are in the journal.
ALTER TABLE channels ADD COLUMN exported BIGINT NOT NULL DEFAULT 0;
