-- Finds the words of a hub's channels when the hub is deleted, or replaced by a backup.
CREATE INDEX search_texts_by_channel ON search_texts (channel_id);
