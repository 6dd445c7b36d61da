-- Webhooks and peer subscriptions of one owner are listed, counted and erased by it.
CREATE INDEX webhooks_by_owner ON webhooks (hub, owner);
