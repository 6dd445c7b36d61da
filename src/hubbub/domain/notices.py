"""Messages of the hub to a client, independent of the encoding."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from hubbub.domain.documents.text import JsonList, JsonText
from hubbub.domain.errors import HubbubError
from hubbub.domain.events import Notice as Notice
from hubbub.domain.events import Ping as Ping
from hubbub.domain.events import Pong as Pong
from hubbub.domain.filters.definition import FilterDefinition
from hubbub.domain.messages import Message
from hubbub.domain.notifications import Notification, NotificationState
from hubbub.domain.permissions import Grant
from hubbub.domain.threads import Thread
from hubbub.domain.topics import DEFAULT_SUBSCRIPTION, Article, SubscriptionInfo
from hubbub.domain.wire import ALWAYS, FLAT, OPTIONAL, Wire, derived


class Failed(Notice, frozen=True):
    """Event `Error`: the failure of a request that has no response event of its own."""

    error: HubbubError
    req_id: int = 0


class Disconnect(Notice, frozen=True):
    """The reason for which the server closes the connection; the last event on it."""

    error: Annotated[HubbubError, FLAT]


class SessionInfo(Notice, frozen=True):
    hub_id: str
    session_id: str
    hub_allow_anonymous: bool
    hub_allow_user_channel: bool
    default_public: bool
    authenticated: bool
    user_id: str | None
    ping_interval_seconds: Annotated[int, Wire("ping_interval")]
    protocol_version: Annotated[int, ALWAYS] = 1
    max_message_bytes: int = 0
    """The largest WebSocket message that the hub accepts; 0: unspecified."""
    expires_at: int | None = None
    """When the token given at connect expires, in seconds since 1970; None: never."""
    max_channels: int = 0
    """The most channels that a session may subscribe to; 0: unspecified."""
    messages_per_second: float = 0.0
    """The sustained rate at which a session may send; 0: no limit."""


class Authenticated(Notice, frozen=True):
    """Event `Auth`. Authentication failed if `error` is set."""

    req_id: int = 0
    error: HubbubError | None = None
    user_id: str | None = None
    token: str | None = None
    grants: Annotated[tuple[Grant, ...], Wire("channel_authorizations")] = ()
    rpcs: Annotated[tuple[str, ...], Wire("rpc_authorizations")] = ()
    extra: dict[str, Any] = msgspec.field(default_factory=dict)
    expires_at: int | None = None

    @derived
    def success(self) -> bool:
        return self.error is None


class RestoreKey(Notice, frozen=True):
    """Event `SessionRestore`: the key with which the client can restore its session."""

    restore_key: str


class SubscribedChannel(msgspec.Struct, frozen=True):
    """`recovered` is False if some of the requested messages no longer exist."""

    channel: str
    epoch: str
    serial: int
    recovered: Annotated[bool, ALWAYS] = True


class SubscribedPattern(msgspec.Struct, frozen=True):
    """`matches` is the current number of matching channels. `recovered` is False if channels may
    have appeared or disappeared unnoticed since the requested time."""

    pattern: str
    matches: Annotated[int, ALWAYS] = 0
    recovered: Annotated[bool, ALWAYS] = True


class ChannelFailure(msgspec.Struct, frozen=True):
    channel: str
    error: HubbubError


class SessionRestored(Notice, frozen=True):
    session_id: str
    user_id: str | None
    grants: Annotated[tuple[Grant, ...], Wire("authorizations", optional=True)]
    rpcs: Annotated[tuple[str, ...], OPTIONAL]
    extra: Annotated[dict[str, Any], OPTIONAL]
    channels: tuple[SubscribedChannel, ...]
    failures: tuple[ChannelFailure, ...]
    req_id: int = 0
    patterns: tuple[SubscribedPattern, ...] = ()
    expires_at: int | None = None
    """When the identity expires, in seconds since 1970; None: never."""

    @derived
    def subscribed_channels(self) -> tuple[str, ...]:
        return tuple(each.channel for each in self.channels)


class Subscribed(Notice, frozen=True):
    """Event `Subscribe`; without a request id, new channels match a pattern of the session."""

    channels: tuple[SubscribedChannel, ...]
    failures: Annotated[tuple[ChannelFailure, ...], ALWAYS] = ()
    req_id: int = 0
    patterns: tuple[SubscribedPattern, ...] = ()

    @derived
    def subscribed_channels(self) -> tuple[str, ...]:
        return tuple(each.channel for each in self.channels)


class Unsubscribed(Notice, frozen=True):
    """Event `Unsubscribe`; without a request id, access was revoked (`failures`), or channels that
    matched a pattern were deleted."""

    channels: Annotated[tuple[str, ...], Wire("unsubscribed_channels")]
    failures: Annotated[tuple[ChannelFailure, ...], ALWAYS] = ()
    req_id: int = 0


class PublishResult(msgspec.Struct, frozen=True):
    req_id: int
    message_id: Annotated[str | None, Wire("msg_id")] = None
    serial: Annotated[int, Wire("channel_serial")] = 0
    error: HubbubError | None = None
    duplicate: bool = False
    """The put is a repeat: id and serial are the original's, or missing if the original was
    deleted."""

    @derived
    def success(self) -> bool:
        return self.error is None


class Published(Notice, frozen=True):
    """Event `Ack`."""

    results: Annotated[tuple[PublishResult, ...], Wire("published")]


class MessageDelivery(Notice, frozen=True):
    """Event `Publish`: a message of a channel. `previous_serial` is set if a filter dropped
    messages before this one."""

    message: Annotated[Message, FLAT]
    retained: bool = False
    previous_serial: int | None = None


class HistoryPage(Notice, frozen=True):
    """Messages in ascending order; `more`: another page follows in the same direction. `next` is
    the bound of that page, set if filters dropped messages at the end of this one."""

    channel: str
    messages: Annotated[tuple[Message, ...], ALWAYS] = ()
    epoch: str = ""
    head: Annotated[int, Wire(unless="error")] = 0
    recovered: Annotated[bool, ALWAYS] = True
    more: Annotated[bool, ALWAYS] = False
    req_id: int = 0
    error: HubbubError | None = None
    next: int | None = None


class FilterSet(Notice, frozen=True):
    """Event `SetFilter`: the filter applies to every message published from now on."""

    name: str
    channel: str | None = None
    req_id: int = 0


class FilterUnset(Notice, frozen=True):
    """Event `UnsetFilter`. `count` is the number of removed filters."""

    name: str
    channel: str | None = None
    count: int = 0
    req_id: int = 0


class FilterList(Notice, frozen=True):
    """Event `ListFilters`, in the order of evaluation."""

    filters: Annotated[tuple[FilterDefinition, ...], ALWAYS]
    req_id: int = 0


class ThreadsPage(Notice, frozen=True):
    """Threads in the order of their first messages; `more`: another page follows."""

    channel: str
    threads: Annotated[tuple[Thread, ...], ALWAYS] = ()
    epoch: str = ""
    more: Annotated[bool, ALWAYS] = False
    req_id: int = 0
    error: HubbubError | None = None


class ChannelReset(Notice, frozen=True):
    """The channel has a new epoch: positions of earlier epochs are invalid. Unless `recovered`,
    messages in between may be lost."""

    channel: str
    epoch: str
    serial: int
    recovered: bool = False


class DocumentUpdated(Notice, frozen=True):
    """The change that led to a version of a document, as RFC 6902 operations that any library can
    apply."""

    channel: str
    epoch: str
    version: int
    timestamp: int
    change_id: str
    ops: JsonList
    author: str | None = None


class DocumentInfo(Notice, frozen=True):
    """The version of a document; a client with another version catches up or reads the document
    again."""

    channel: str
    epoch: str
    version: int
    timestamp: int
    size: int


class DocumentFound(Notice, frozen=True):
    """Event `DocumentGet`: the document, or the updates that lead to its version."""

    channel: str
    epoch: str = ""
    version: Annotated[int, Wire(unless="error")] = 0
    timestamp: Annotated[int, Wire(unless="error")] = 0
    document: JsonText | None = None
    updates: tuple[DocumentUpdated, ...] = ()
    more: bool = False
    req_id: int = 0
    error: HubbubError | None = None


class DocumentChangeResult(Notice, frozen=True):
    """Event `DocumentChange`: the result of a change. If the expected version does not match,
    `version` is the document's actual version."""

    channel: str
    epoch: str = ""
    version: int | None = None
    timestamp: int = 0
    duplicate: bool = False
    error: HubbubError | None = None
    op_index: int | None = None
    reason: str | None = None
    req_id: int = 0

    def details(self) -> dict[str, Any]:
        """The error's details about the document and the operation."""
        found = {"opIndex": self.op_index, "reason": self.reason, "version": self.version}
        found["epoch"] = self.epoch or None
        return {name: value for name, value in found.items() if value is not None}

    @derived
    def success(self) -> bool:
        return self.error is None


class Member(msgspec.Struct, frozen=True):
    """A session that has been present in a channel since `timestamp` (milliseconds)."""

    session_id: str
    user_id: str | None
    extra: Annotated[dict[str, Any], OPTIONAL]
    timestamp: int
    data: dict[str, Any] | None = None
    """Data that the session set itself; unlike `extra`, it is not authenticated."""


class Presence(Notice, frozen=True):
    channel: str
    members: Annotated[tuple[Member, ...], Wire("presence")]
    req_id: int = 0
    error: HubbubError | None = None


class Joined(Notice, frozen=True):
    """Event `Join`."""

    channel: str
    members: Annotated[tuple[Member, ...], Wire("presence")]


class Left(Notice, frozen=True):
    """Event `Leave`."""

    channel: str
    members: Annotated[tuple[Member, ...], Wire("presence")]


class Occupancy(Notice, frozen=True):
    channel: str
    count: int


class TopicSubscribed(Notice, frozen=True):
    """Event `TopicSubscription` with the result SUBSCRIBED."""

    subscription: Annotated[SubscriptionInfo, FLAT]
    req_id: int = 0

    @derived
    def answer(self) -> str:
        return "SUBSCRIBED"


class TopicUnsubscribed(Notice, frozen=True):
    """Event `TopicSubscription` with the result UNSUBSCRIBED."""

    topic: str
    name: Annotated[str, ALWAYS] = DEFAULT_SUBSCRIPTION
    req_id: int = 0

    @derived
    def answer(self) -> str:
        return "UNSUBSCRIBED"


class TopicArticles(msgspec.Struct, frozen=True):
    """Messages of one topic for a subscription; empty if there are none yet."""

    messages: tuple[Article, ...]

    @derived
    def answer(self) -> str:
        return "TopicArticle" if self.messages else "EmptyTopic"


class TopicMessages(Notice, frozen=True):
    """Messages of one topic; empty if there are none yet."""

    topic: str
    name: Annotated[str, ALWAYS] = DEFAULT_SUBSCRIPTION
    messages: Annotated[tuple[Article, ...], ALWAYS] = ()
    req_id: int = 0

    @derived
    def answer(self) -> str:
        return "TopicArticle" if self.messages else "EmptyTopic"


class EachTopicMessages(Notice, frozen=True):
    """Event `TopicMessages` for a request without a topic: messages by topic."""

    name: str
    topics: dict[str, TopicArticles]
    req_id: int = 0


class TopicAcked(Notice, frozen=True):
    """Everything up to `floor` is acknowledged, durably."""

    topic: str
    name: str
    floor: int
    req_id: int = 0

    @derived
    def answer(self) -> str:
        return "Ack"


class ProducerOpened(Notice, frozen=True):
    topic: str
    producer: str
    fence: int
    sequence: int
    """The sequence number of the last durable put; 0 before the first."""
    req_id: int = 0


class TopicSubscriptions(Notice, frozen=True):
    subscriptions: tuple[SubscriptionInfo, ...]
    req_id: int = 0


class CallAnswered(Notice, frozen=True):
    """Event `RPC`: the service's response."""

    payload: bytes
    content_type: Annotated[str, OPTIONAL]
    req_id: int = 0


class Enqueued(Notice, frozen=True):
    """Event `StreamEnqueue`: the stream has stored the event durably."""

    message_id: Annotated[str, Wire("msg_id")]
    req_id: int = 0


class CommandReceived(Notice, frozen=True):
    """Event `HCommand`: a command that this client should process."""

    command: dict[str, Any]
    req_id: int = 0


class CommandAnswered(Notice, frozen=True):
    """Event `HResult`: the result of the client's own command."""

    result: dict[str, Any]
    req_id: int = 0


class NotificationNew(Notice, frozen=True):
    channel: str
    revision: int
    notification: Notification


class NotificationRead(Notice, frozen=True):
    """Unread notifications became read: those with these ids, or all up to a timestamp."""

    channel: str
    revision: int
    read_at: int
    ids: tuple[str, ...] = ()
    up_to: int | None = None
    read_by: str | None = None


class NotificationInfo(Notice, frozen=True):
    channel: str
    state: Annotated[NotificationState, FLAT]
    req_id: int = 0


class NotificationsMarked(Notice, frozen=True):
    """Event `MarkNotificationAsRead`. `unread` is the number of unread notifications left."""

    req_id: int
    marked: Annotated[int, Wire(unless="error")] = 0
    unread: Annotated[int, Wire(unless="error")] = 0
    unknown: tuple[str, ...] = ()
    error: HubbubError | None = None

    @derived
    def success(self) -> bool:
        return self.error is None


class NotificationPage(Notice, frozen=True):
    """Event `NotificationList`: newest first, or in ascending order after a timestamp."""

    channel: str
    notifications: tuple[Notification, ...]
    more: bool
    state: Annotated[NotificationState, FLAT]
    req_id: int = 0
