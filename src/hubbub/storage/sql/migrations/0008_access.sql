-- Whether a topic was made through `openTopics`; all topics registered so far were.
ALTER TABLE web_topics ADD COLUMN open BIGINT NOT NULL DEFAULT 1;

-- As whom a webhook, or a device, gets what it is sent: an identity in MessagePack.
ALTER TABLE webhooks ADD COLUMN acting {blob};
ALTER TABLE push_tokens ADD COLUMN acting {blob};
