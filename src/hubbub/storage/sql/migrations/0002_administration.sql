-- Who changed what, when; `before` and `after` are JSON. Ids rise with time.
CREATE TABLE audit (
    id {identity},
    at BIGINT NOT NULL,
    hub {text} NOT NULL,
    actor {text} NOT NULL,
    level {text} NOT NULL,
    token_id {text},
    action {text} NOT NULL,
    name {text} NOT NULL,
    before {blob},
    after {blob}
);
CREATE INDEX audit_by_hub ON audit (hub, id);
CREATE INDEX audit_by_time ON audit (at);

-- Tokens that hold no longer: one, all of a user, or all of a hub that were issued until then.
CREATE TABLE revocations (
    hub {text} NOT NULL,
    kind {text} NOT NULL,
    subject {text} NOT NULL,
    issued_until BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (hub, kind, subject)
);
CREATE INDEX revocations_by_expiry ON revocations (expires_at);
