-- The words of stored messages of channels whose rules switch search on. `place` is the id of the
-- channel and the serial in one number; `at` is the message's `high_at`.
CREATE TABLE search_texts (
    place {place},
    channel_id BIGINT NOT NULL,
    at BIGINT NOT NULL,
    size BIGINT NOT NULL,
    words {text} NOT NULL
);
INDEX WORDS OF search_texts;

-- The serial up to which a channel's messages are indexed; NULL: no index was begun.
ALTER TABLE channels ADD COLUMN searched BIGINT;
CREATE INDEX channels_searched ON channels (hub, name) WHERE searched IS NOT NULL;
