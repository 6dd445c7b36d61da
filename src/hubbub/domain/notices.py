"""What the hub says to a client, independent of the encoding."""

from __future__ import annotations

from typing import Any

import msgspec

from hubbub.domain.errors import HubbubError
from hubbub.domain.messages import Message
from hubbub.domain.permissions import Grant
from hubbub.domain.topics import DEFAULT_SUBSCRIPTION, Article, SubscriptionInfo


class Ping(msgspec.Struct, frozen=True):
    req_id: int = 0


class Pong(msgspec.Struct, frozen=True):
    req_id: int = 0


class Failed(msgspec.Struct, frozen=True):
    """Event `Error`: a request failed that has no response of its own kind."""

    error: HubbubError
    req_id: int = 0


class Disconnect(msgspec.Struct, frozen=True):
    """The last words before the server closes the connection."""

    error: HubbubError


class SessionInfo(msgspec.Struct, frozen=True):
    hub_id: str
    session_id: str
    hub_allow_anonymous: bool
    hub_allow_user_channel: bool
    default_public: bool
    authenticated: bool
    user_id: str | None
    ping_interval_seconds: int
    protocol_version: int = 1
    max_message_bytes: int = 0
    """The largest WebSocket message that the hub takes; 0: it does not say."""


class Authenticated(msgspec.Struct, frozen=True):
    """Event `Auth`. Failed where `error` is set."""

    req_id: int = 0
    error: HubbubError | None = None
    user_id: str | None = None
    token: str | None = None
    grants: tuple[Grant, ...] = ()
    rpcs: tuple[str, ...] = ()
    extra: dict[str, Any] = {}
    expires_at: int | None = None


class RestoreKey(msgspec.Struct, frozen=True):
    """Event `SessionRestore`: the key that the client should keep."""

    restore_key: str


class SubscribedChannel(msgspec.Struct, frozen=True):
    """`recovered` is False where something that was asked for is no longer there."""

    channel: str
    epoch: str
    serial: int
    recovered: bool = True


class ChannelFailure(msgspec.Struct, frozen=True):
    channel: str
    error: HubbubError


class SessionRestored(msgspec.Struct, frozen=True):
    session_id: str
    user_id: str | None
    grants: tuple[Grant, ...]
    rpcs: tuple[str, ...]
    extra: dict[str, Any]
    channels: tuple[SubscribedChannel, ...]
    failures: tuple[ChannelFailure, ...]
    req_id: int = 0


class Subscribed(msgspec.Struct, frozen=True):
    """Event `Subscribe`."""

    channels: tuple[SubscribedChannel, ...]
    failures: tuple[ChannelFailure, ...] = ()
    req_id: int = 0


class Unsubscribed(msgspec.Struct, frozen=True):
    """Event `Unsubscribe`; with failures and no request, access was taken away."""

    channels: tuple[str, ...]
    failures: tuple[ChannelFailure, ...] = ()
    req_id: int = 0


class PublishResult(msgspec.Struct, frozen=True):
    req_id: int
    message_id: str | None = None
    serial: int = 0
    error: HubbubError | None = None
    duplicate: bool = False
    """A put that was there already: id and serial are the original's, or missing where that has
    been reclaimed."""


class Published(msgspec.Struct, frozen=True):
    """Event `Ack`."""

    results: tuple[PublishResult, ...]


class Delivery(msgspec.Struct, frozen=True):
    """Event `Publish`: a message of a channel. `previous_serial` is set where a filter left
    messages out before this one."""

    message: Message
    retained: bool = False
    previous_serial: int | None = None


class HistoryPage(msgspec.Struct, frozen=True):
    """Messages in rising order; `more` tells of another page in the same direction."""

    channel: str
    messages: tuple[Message, ...] = ()
    epoch: str = ""
    head: int = 0
    recovered: bool = True
    more: bool = False
    req_id: int = 0
    error: HubbubError | None = None


class ChannelReset(msgspec.Struct, frozen=True):
    """Positions of other epochs mean nothing any more; what lay between may be lost."""

    channel: str
    epoch: str
    serial: int


class Member(msgspec.Struct, frozen=True):
    """A session that is present in a channel, since `timestamp` (milliseconds)."""

    session_id: str
    user_id: str | None
    extra: dict[str, Any]
    timestamp: int


class Presence(msgspec.Struct, frozen=True):
    channel: str
    members: tuple[Member, ...]
    req_id: int = 0
    error: HubbubError | None = None


class Joined(msgspec.Struct, frozen=True):
    """Event `Join`."""

    channel: str
    members: tuple[Member, ...]


class Left(msgspec.Struct, frozen=True):
    """Event `Leave`."""

    channel: str
    members: tuple[Member, ...]


class Occupancy(msgspec.Struct, frozen=True):
    channel: str
    count: int


class TopicSubscribed(msgspec.Struct, frozen=True):
    """Event `TopicSubscription`, with the answer SUBSCRIBED."""

    subscription: SubscriptionInfo
    req_id: int = 0


class TopicUnsubscribed(msgspec.Struct, frozen=True):
    """Event `TopicSubscription`, with the answer UNSUBSCRIBED."""

    topic: str
    name: str = DEFAULT_SUBSCRIPTION
    req_id: int = 0


class TopicMessages(msgspec.Struct, frozen=True):
    """No messages: there is nothing for the caller (yet)."""

    topic: str
    name: str = DEFAULT_SUBSCRIPTION
    messages: tuple[Article, ...] = ()
    req_id: int = 0


class EachTopicMessages(msgspec.Struct, frozen=True):
    """Event `TopicMessages`, where no topic was named: those of each, by topic."""

    name: str
    topics: dict[str, tuple[Article, ...]]
    req_id: int = 0


class TopicAcked(msgspec.Struct, frozen=True):
    """Everything up to `floor` is done, and that is on disk."""

    topic: str
    name: str
    floor: int
    req_id: int = 0


class ProducerOpened(msgspec.Struct, frozen=True):
    topic: str
    producer: str
    fence: int
    sequence: int
    """That of the last put that is on disk, 0 before the first."""
    req_id: int = 0


class TopicSubscriptions(msgspec.Struct, frozen=True):
    subscriptions: tuple[SubscriptionInfo, ...]
    req_id: int = 0


class CallAnswered(msgspec.Struct, frozen=True):
    """Event `RPC`: what the service answered."""

    payload: bytes
    content_type: str
    req_id: int = 0


class Enqueued(msgspec.Struct, frozen=True):
    """Event `StreamEnqueue`: the stream has the event, and will not lose it."""

    message_id: str
    req_id: int = 0


Notice = (
    Ping
    | Pong
    | Failed
    | Disconnect
    | SessionInfo
    | Authenticated
    | RestoreKey
    | SessionRestored
    | Subscribed
    | Unsubscribed
    | Published
    | Delivery
    | HistoryPage
    | ChannelReset
    | Presence
    | Joined
    | Left
    | Occupancy
    | TopicSubscribed
    | TopicUnsubscribed
    | TopicMessages
    | EachTopicMessages
    | TopicAcked
    | ProducerOpened
    | TopicSubscriptions
    | CallAnswered
    | Enqueued
)
