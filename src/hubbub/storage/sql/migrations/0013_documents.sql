-- The document of a channel: `version` counts its changes within `epoch`; those from `first_version`
-- on are there. `size` is that of the document, `stored_bytes` that of its changes and snapshots.
CREATE TABLE documents (
    id {identity},
    hub {text} NOT NULL,
    channel {text} NOT NULL,
    epoch {text} NOT NULL,
    version BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    size BIGINT NOT NULL,
    first_version BIGINT NOT NULL,
    stored_bytes BIGINT NOT NULL,
    UNIQUE (hub, channel)
){updated_often};

-- What raised the document to `version`: operations of JSON Patch, as subscribers got them.
CREATE TABLE document_changes (
    document_id BIGINT NOT NULL,
    version BIGINT NOT NULL,
    changed_at BIGINT NOT NULL,
    author {text},
    change_id {text} NOT NULL,
    ops {blob} NOT NULL,
    PRIMARY KEY (document_id, version)
);

-- The whole document at a version: its JSON text, compressed.
CREATE TABLE document_snapshots (
    document_id BIGINT NOT NULL,
    version BIGINT NOT NULL,
    changed_at BIGINT NOT NULL,
    content {blob} NOT NULL,
    PRIMARY KEY (document_id, version)
);

-- Changes of producers, so that a repeat is answered like the original however late it comes.
CREATE TABLE document_puts (
    producer_id BIGINT NOT NULL,
    sequence BIGINT NOT NULL,
    epoch {text} NOT NULL,
    version BIGINT NOT NULL,
    changed_at BIGINT NOT NULL,
    digest {blob} NOT NULL,
    PRIMARY KEY (producer_id, sequence)
);
