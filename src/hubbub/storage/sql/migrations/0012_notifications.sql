-- Notification channels in numbers, kept up in the transactions that change their notifications.
-- `due_at`: no notification of the channel expires before.
CREATE TABLE notification_channels (
    id {identity},
    hub {text} NOT NULL,
    name {text} NOT NULL,
    epoch {text} NOT NULL,
    revision BIGINT NOT NULL,
    unread BIGINT NOT NULL,
    total BIGINT NOT NULL,
    newest BIGINT NOT NULL,
    due_at BIGINT NOT NULL,
    UNIQUE (hub, name)
){updated_often};
CREATE INDEX notification_channels_due ON notification_channels (due_at);

-- `expires_at` is what the author wants; at `due_at` the notification goes in any case.
CREATE TABLE notifications (
    channel_id BIGINT NOT NULL,
    at BIGINT NOT NULL,
    id {text} NOT NULL,
    event {text} NOT NULL,
    content_type {text} NOT NULL,
    payload {blob} NOT NULL,
    author {text},
    expires_at BIGINT,
    due_at BIGINT NOT NULL,
    read_at BIGINT,
    read_by {text},
    PRIMARY KEY (channel_id, at)
);
CREATE UNIQUE INDEX notifications_by_id ON notifications (channel_id, id);
CREATE INDEX notifications_unread ON notifications (channel_id, at) WHERE read_at IS NULL;
CREATE INDEX notifications_due ON notifications (channel_id, due_at);
