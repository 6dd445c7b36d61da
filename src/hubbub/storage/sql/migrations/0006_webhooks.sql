-- Topics of Light-PubSubHubbub and WebSub: who may publish, and what was fetched last.
CREATE TABLE web_topics (
    hub {text} NOT NULL,
    channel {text} NOT NULL,
    key_hash {blob},
    created_at BIGINT NOT NULL,
    url {text},
    etag {text},
    last_modified {text},
    digest {blob},
    content_type {text},
    PRIMARY KEY (hub, channel)
);

-- Where the messages of a channel go. The place in the channel is a cursor of the owner `webhook`.
-- `pending` is what a subscriber still has to confirm.
CREATE TABLE webhooks (
    hub {text} NOT NULL,
    channel {text} NOT NULL,
    id {text} NOT NULL,
    kind {text} NOT NULL,
    callback {text} NOT NULL,
    topic {text} NOT NULL,
    secret {blob},
    algorithm {text} NOT NULL,
    encryption_key {blob},
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    state {text} NOT NULL,
    owner {text},
    hub_url {text},
    pending {blob},
    partition_id BIGINT NOT NULL,
    PRIMARY KEY (hub, id)
);
CREATE INDEX webhooks_by_channel ON webhooks (hub, channel);
CREATE INDEX webhooks_by_partition ON webhooks (partition_id);
