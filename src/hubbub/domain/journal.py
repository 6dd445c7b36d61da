"""The journal's events: a record of what happened in a hub.

One flat record type for every kind of event; unused fields are omitted. The schema only grows: a
new field is optional, a new kind of event gets a new name, and readers skip unknown fields and
kinds. `docs/journal.md` is the public description of this file.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from itertools import chain
from typing import Final, Literal

import msgspec

from hubbub.rooms import modules

SCHEMA_VERSION: Final = 1

SESSION_OPENED: Final = "session.opened"
SESSION_CLOSED: Final = "session.closed"
SUBSCRIBED: Final = "subscription.started"
UNSUBSCRIBED: Final = "subscription.ended"
PUBLISHED: Final = "message.published"
DELIVERED: Final = "message.delivered"
"""One event per channel, technology and tick: `count` deliveries of `messages` messages."""
DROPPED: Final = "message.dropped"
RECEIVED: Final = "message.received"
"""A durable subscription delivered messages: `first_serial` to `serial`."""
ACKNOWLEDGED: Final = "message.acknowledged"
"""Messages of a durable subscription were acknowledged: `first_serial` to `serial`."""
EXPIRED: Final = "message.expired"
"""Messages expired before delivery: `first_serial` to `serial`, for one durable subscription or
webhook, or for the live subscribers of a technology."""
DEAD_LETTERED: Final = "message.dead"
WEBHOOK_ATTEMPT: Final = "webhook.attempt"
ADAPTER_ATTEMPT: Final = "adapter.attempt"
POLICY_VERDICT: Final = "policy.verdict"
"""The verdict on a message to `receiver`, a peer or `collective:…`: `outcome` is `met`, `failed` or
`timed_out` under `policy`, for `reason`."""
STREAM_EVENT: Final = "stream.event"
"""A client submitted an event to a stream. `channel` is the stream's name after `stream:`. The
payload is always recorded."""
NOTIFICATION_CREATED: Final = "notification.created"
"""`message_id` is the notification's id, `published_at` its timestamp."""
NOTIFICATION_READ: Final = "notification.read"
"""Read by `user`; `duration` is the time since the notification was created."""
NODE_STARTED: Final = "node.started"
"""A node began to write, at the time of its start; without a hub. The node's earlier sessions have
ended."""
PUSH_ATTEMPT: Final = "push.attempt"
"""A push service was called for one device of `user`: `technology` is the platform (`webpush`,
`fcm`, `apns`), `subscription` the hash of the device's token, `peer` the service's host, `outcome`
one of `PUSH_OUTCOMES`."""
TELEMETRY_LOST: Final = "journal.lost"
"""The disk was too slow: `count` best-effort events are missing here."""

WHOLE_HEADERS: Final = "headers"
"""A key of `extra`: a message's headers as one JSON object, if some values are not strings."""

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
        PUSH_ATTEMPT,
        TELEMETRY_LOST,
        *chain.from_iterable(room.KINDS for room in modules("domain", "journal")),
    )
)
"""Kinds of events. Rooms add theirs in a module of their own (`hubbub.rooms`)."""

PUSH_OUTCOMES: Final = ("ok", "retry", "gone", "refused", "credentials", "dropped")
"""The outcome of a push attempt: accepted; will be retried; the token is dead and was deleted; the
service rejects the message; the service rejects the hub's credentials; dropped (too many attempts,
expired, or over the token's rate limit)."""

PayloadRule = Literal["off", "metadata", "payload"]
"""What a hub's rules let the journal record of a message: nothing, its envelope, or envelope and
payload."""


class JournalEvent(msgspec.Struct, omit_defaults=True, gc=False):
    """Times are microseconds since 1970 in UTC; durations are microseconds."""

    kind: str
    at: int
    hub: str
    node: str = ""
    channel: str | None = None
    session: str | None = None
    user: str | None = None
    """The acting user: the publisher, the session's user, or the owner of the subscription."""
    technology: str | None = None
    """The protocol of ingress or egress: websocket, sse, http, zeromq, webhook, websub, an
    adapter's name …"""
    # -- the message
    message_id: str | None = None
    epoch: str | None = None
    serial: int | None = None
    """The message's serial; for several messages, the last serial. None: no serial."""
    first_serial: int | None = None
    stored: bool | None = None
    event: str | None = None
    content_type: str | None = None
    size: int | None = None
    """Payload bytes; for several messages, their sum."""
    payload: bytes | None = None
    published_at: int | None = None
    producer: str | None = None
    sequence: int | None = None
    conversation_id: str | None = None
    refers_to: str | None = None
    """The id of the message to which this one replies."""
    sender: str | None = None
    receiver: str | None = None
    language: str | None = None
    headers: dict[str, str] | None = None
    """Values that are not strings are stored as JSON."""
    # -- deliveries
    messages: int | None = None
    count: int | None = None
    latency_min: int | None = None
    latency_max: int | None = None
    latency_sum: int | None = None
    """The sum over all `count` deliveries, from `published_at` to the write."""
    latency_squares: float | None = None
    """The sum of squares, for the standard deviation."""
    latency_buckets: dict[int, int] | None = None
    """Deliveries by bucket: bucket b holds latencies of at least 2**(b/8) and less than
    2**((b+1)/8) microseconds; bucket 0 also holds everything below one microsecond."""
    # -- durable subscriptions, webhooks, adapters
    subscription: str | None = None
    delivery: int | None = None
    """How often the message was delivered, including this time."""
    attempt: int | None = None
    outcome: str | None = None
    """`ok`, or a code for the failure."""
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
    """The id of the message that became this dead letter; `refers_to` is the message to which it
    replies."""


_BOUNDS: Final = tuple(math.ceil(2 ** (bucket / 8)) for bucket in range(8 * 44))
"""The lower bound of each bucket in microseconds, up to half a year."""


def bucket_of(latency: int) -> int:
    """The bucket of a latency in microseconds."""
    return max(0, bisect_right(_BOUNDS, latency) - 1)


def least_in(bucket: int) -> int:
    """The lower bound of a bucket, in microseconds."""
    return _BOUNDS[bucket] if bucket else 0
