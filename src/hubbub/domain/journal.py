"""The journal's events: what happened in a hub, for those who ask later.

One flat record for every kind of event. A field that an event has no use for is left out. The
schema only grows: a new field is optional, a new kind of event gets a new word, and a reader
skips what it does not know. `docs/journal.md` is this file for people.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import Final, Literal

import msgspec

SCHEMA_VERSION: Final = 1

SESSION_OPENED: Final = "session.opened"
SESSION_CLOSED: Final = "session.closed"
SUBSCRIBED: Final = "subscription.started"
UNSUBSCRIBED: Final = "subscription.ended"
PUBLISHED: Final = "message.published"
DELIVERED: Final = "message.delivered"
"""One for each channel, technology and tick; `count` deliveries of `messages` messages."""
DROPPED: Final = "message.dropped"
RECEIVED: Final = "message.received"
"""A durable subscription handed messages out: `first_serial` to `serial`."""
ACKNOWLEDGED: Final = "message.acknowledged"
"""A durable subscription was told that messages are done: `first_serial` to `serial`."""
EXPIRED: Final = "message.expired"
"""The time to live of messages was over before they could be delivered this way: `first_serial` to
`serial`, to one durable subscription or webhook, or to the live subscribers of a technology."""
DEAD_LETTERED: Final = "message.dead"
WEBHOOK_ATTEMPT: Final = "webhook.attempt"
ADAPTER_ATTEMPT: Final = "adapter.attempt"
POLICY_VERDICT: Final = "policy.verdict"
"""What became of a message to `receiver`, a peer or `collective:…`: `outcome` is `met`, `failed` or
`timed_out`, by `policy`, for `reason`."""
STREAM_EVENT: Final = "stream.event"
"""A client handed an event to a stream, which is `channel` with `stream:` before its name. The
payload is always there: it is what the stream is for."""
NOTIFICATION_CREATED: Final = "notification.created"
"""`message_id` is the notification's id, `published_at` its timestamp."""
NOTIFICATION_READ: Final = "notification.read"
"""By `user`; `duration` is the time since it was created."""
NODE_STARTED: Final = "node.started"
"""A node began to write, at the time of its start; of no hub. What it had open before is over."""
DOCUMENT_CHANGED: Final = "document.changed"
"""A change of a channel's document: `serial` is the version that it led to, `message_id` the id of
the change, `size` the bytes of its operations, `extra.documentBytes` those of the document."""
PUSH_ATTEMPT: Final = "push.attempt"
"""A push service was asked to reach one device of `user`: `technology` is the platform (`webpush`,
`fcm`, `apns`), `subscription` the hash of the device's token, `peer` the service's host, `outcome`
one of `PUSH_OUTCOMES`."""
TELEMETRY_LOST: Final = "journal.lost"
"""The disk could not keep up: `count` events that nobody was promised are missing here."""

WHOLE_HEADERS: Final = "headers"
"""In `extra`: a message's headers as one JSON object, where some of them are no strings."""

KINDS: Final = frozenset(
    (
        SESSION_OPENED,
        SESSION_CLOSED,
        SUBSCRIBED,
        UNSUBSCRIBED,
        PUBLISHED,
        DELIVERED,
        DROPPED,
        RECEIVED,
        ACKNOWLEDGED,
        EXPIRED,
        DEAD_LETTERED,
        WEBHOOK_ATTEMPT,
        ADAPTER_ATTEMPT,
        POLICY_VERDICT,
        STREAM_EVENT,
        NOTIFICATION_CREATED,
        NOTIFICATION_READ,
        NODE_STARTED,
        DOCUMENT_CHANGED,
        PUSH_ATTEMPT,
        TELEMETRY_LOST,
    )
)

PUSH_OUTCOMES: Final = ("ok", "retry", "gone", "refused", "credentials", "dropped")
"""What became of a push attempt: the service took it; it is tried again; the token is dead and was
dropped; the service refuses the message; it refuses the hub's credentials; it was given up (too
many tries, its time was over, or its token had too many)."""

PayloadRule = Literal["off", "metadata", "payload"]
"""What a hub's rules let into the journal of a message: nothing, its envelope, or all of it."""


class JournalEvent(msgspec.Struct, omit_defaults=True, gc=False):
    """Times are microseconds since 1970, UTC; durations are microseconds."""

    kind: str
    at: int
    hub: str
    node: str = ""
    channel: str | None = None
    session: str | None = None
    user: str | None = None
    """Who did it: the publisher, the session's user, the owner of the subscription."""
    technology: str | None = None
    """The way in or out: websocket, sse, http, zeromq, webhook, websub, an adapter's name …"""
    # -- the message
    message_id: str | None = None
    epoch: str | None = None
    serial: int | None = None
    """Of the message; of the last one where there are several. None: it has no position."""
    first_serial: int | None = None
    stored: bool | None = None
    event: str | None = None
    content_type: str | None = None
    size: int | None = None
    """Bytes of the payload; of all of them where there are several."""
    payload: bytes | None = None
    published_at: int | None = None
    producer: str | None = None
    sequence: int | None = None
    conversation_id: str | None = None
    refers_to: str | None = None
    """The id of the message that this one answers."""
    sender: str | None = None
    receiver: str | None = None
    language: str | None = None
    headers: dict[str, str] | None = None
    """Values that are no strings are there as JSON."""
    # -- deliveries
    messages: int | None = None
    count: int | None = None
    latency_min: int | None = None
    latency_max: int | None = None
    latency_sum: int | None = None
    """Over all `count` deliveries, from `published_at` to the write."""
    latency_squares: float | None = None
    """The sum of the squares, for the deviation."""
    latency_buckets: dict[int, int] | None = None
    """Deliveries by bucket: bucket b holds latencies of at least 2**(b/8) microseconds and less
    than 2**((b+1)/8); bucket 0 everything under one microsecond."""
    # -- durable subscriptions, webhooks, adapters
    subscription: str | None = None
    delivery: int | None = None
    """How often it was handed out, this time included."""
    attempt: int | None = None
    outcome: str | None = None
    """`ok`, or a word for what went wrong."""
    status: int | None = None
    reason: str | None = None
    duration: int | None = None
    peer: str | None = None
    adapter: str | None = None
    policy: str | None = None
    extra: dict[str, str] | None = None
    # -- more of the message's envelope
    subtype: str | None = None
    author: str | None = None
    priority: int | None = None
    relevant_until: int | None = None
    ttl: int | None = None
    """Milliseconds."""
    location: str | None = None
    """JSON."""
    dead_letter_of: str | None = None
    """The id of the message whose dead letter this is; `refers_to` is what the message answers."""


_BOUNDS: Final = tuple(math.ceil(2 ** (bucket / 8)) for bucket in range(8 * 44))
"""The least whole number of microseconds in each bucket, up to half a year."""


def bucket_of(latency: int) -> int:
    """The bucket of a latency in microseconds."""
    return max(0, bisect_right(_BOUNDS, latency) - 1)


def least_in(bucket: int) -> int:
    """The least latency in a bucket, in microseconds."""
    return _BOUNDS[bucket] if bucket else 0
