-- Topics that live elsewhere: when their publisher last said that there is something new, until it
-- was fetched, and how often that failed since.
ALTER TABLE web_topics ADD COLUMN pinged_at BIGINT;
ALTER TABLE web_topics ADD COLUMN fetch_failures BIGINT NOT NULL DEFAULT 0;
ALTER TABLE web_topics ADD COLUMN fetch_error {text};
ALTER TABLE web_topics ADD COLUMN partition_id BIGINT;
CREATE INDEX web_topics_by_ping ON web_topics (partition_id) WHERE pinged_at IS NOT NULL;
