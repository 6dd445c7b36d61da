"""What the hub says to a client, independent of the encoding."""

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
    """Event `Error`: a request failed that has no response of its own kind."""

    error: HubbubError
    req_id: int = 0


class Disconnect(Notice, frozen=True):
    """The last words before the server closes the connection."""

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
    """The largest WebSocket message that the hub takes; 0: it does not say."""
    expires_at: int | None = None
    """When the token given at connect ends, in seconds since 1970; None: never."""
    max_channels: int = 0
    """That a session may subscribe to; 0: the hub does not say."""
    messages_per_second: float = 0.0
    """That a session may send in the long run; 0: no limit."""


class Authenticated(Notice, frozen=True):
    """Event `Auth`. Failed where `error` is set."""

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
    """Event `SessionRestore`: the key that the client should keep."""

    restore_key: str


class SubscribedChannel(msgspec.Struct, frozen=True):
    """`recovered` is False where something that was asked for is no longer there."""

    channel: str
    epoch: str
    serial: int
    recovered: Annotated[bool, ALWAYS] = True


class SubscribedPattern(msgspec.Struct, frozen=True):
    """`matches` is how many channels match now. `recovered` is False where channels may have come
    and gone since the time that was asked for."""

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
    """When the identity ends, in seconds since 1970; None: never."""

    @derived
    def subscribed_channels(self) -> tuple[str, ...]:
        return tuple(each.channel for each in self.channels)


class Subscribed(Notice, frozen=True):
    """Event `Subscribe`; without a request, channels have come into being that match a pattern."""

    channels: tuple[SubscribedChannel, ...]
    failures: Annotated[tuple[ChannelFailure, ...], ALWAYS] = ()
    req_id: int = 0
    patterns: tuple[SubscribedPattern, ...] = ()

    @derived
    def subscribed_channels(self) -> tuple[str, ...]:
        return tuple(each.channel for each in self.channels)


class Unsubscribed(Notice, frozen=True):
    """Event `Unsubscribe`; without a request, access was taken away (`failures`), or channels have
    gone that matched a pattern."""

    channels: Annotated[tuple[str, ...], Wire("unsubscribed_channels")]
    failures: Annotated[tuple[ChannelFailure, ...], ALWAYS] = ()
    req_id: int = 0


class PublishResult(msgspec.Struct, frozen=True):
    req_id: int
    message_id: Annotated[str | None, Wire("msg_id")] = None
    serial: Annotated[int, Wire("channel_serial")] = 0
    error: HubbubError | None = None
    duplicate: bool = False
    """A put that was there already: id and serial are the original's, or missing where that has
    been reclaimed."""

    @derived
    def success(self) -> bool:
        return self.error is None


class Published(Notice, frozen=True):
    """Event `Ack`."""

    results: Annotated[tuple[PublishResult, ...], Wire("published")]


class Delivery(Notice, frozen=True):
    """Event `Publish`: a message of a channel. `previous_serial` is set where a filter left
    messages out before this one."""

    message: Annotated[Message, FLAT]
    retained: bool = False
    previous_serial: int | None = None


class HistoryPage(Notice, frozen=True):
    """Messages in rising order; `more` tells of another page in the same direction. `next` is the
    bound of that page where filters left messages out, so that the last message is none."""

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
    """Event `SetFilter`: the filter holds for all that is published after this."""

    name: str
    channel: str | None = None
    req_id: int = 0


class FilterUnset(Notice, frozen=True):
    """Event `UnsetFilter`. `count` is how many there were of this name."""

    name: str
    channel: str | None = None
    count: int = 0
    req_id: int = 0


class FilterList(Notice, frozen=True):
    """Event `ListFilters`, in the order of evaluation."""

    filters: Annotated[tuple[FilterDefinition, ...], ALWAYS]
    req_id: int = 0


class ThreadsPage(Notice, frozen=True):
    """Threads in the order of their first messages; `more` tells of another page."""

    channel: str
    threads: Annotated[tuple[Thread, ...], ALWAYS] = ()
    epoch: str = ""
    more: Annotated[bool, ALWAYS] = False
    req_id: int = 0
    error: HubbubError | None = None


class ChannelReset(Notice, frozen=True):
    """Positions of other epochs mean nothing any more; unless `recovered`, what lay between may be
    lost."""

    channel: str
    epoch: str
    serial: int
    recovered: bool = False


class DocumentUpdated(Notice, frozen=True):
    """What raised a document to a version, as RFC 6902 operations that any library can follow."""

    channel: str
    epoch: str
    version: int
    timestamp: int
    change_id: str
    ops: JsonList
    author: str | None = None


class DocumentInfo(Notice, frozen=True):
    """Where a document stands; who has another version catches up or reads it again."""

    channel: str
    epoch: str
    version: int
    timestamp: int
    size: int


class DocumentFound(Notice, frozen=True):
    """Event `DocumentGet`: the document, or the updates that lead to it."""

    channel: str
    epoch: str = ""
    version: Annotated[int, Wire(unless="error")] = 0
    timestamp: Annotated[int, Wire(unless="error")] = 0
    document: JsonText | None = None
    updates: tuple[DocumentUpdated, ...] = ()
    more: bool = False
    req_id: int = 0
    error: HubbubError | None = None


class DocumentChanged(Notice, frozen=True):
    """Event `DocumentChange`: what became of it. Where a version was expected that is not the
    document's, `version` is what it has."""

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
        """Of the error: what it says about the document and the operation."""
        found = {"opIndex": self.op_index, "reason": self.reason, "version": self.version}
        found["epoch"] = self.epoch or None
        return {name: value for name, value in found.items() if value is not None}

    @derived
    def success(self) -> bool:
        return self.error is None


class Member(msgspec.Struct, frozen=True):
    """A session that is present in a channel, since `timestamp` (milliseconds)."""

    session_id: str
    user_id: str | None
    extra: Annotated[dict[str, Any], OPTIONAL]
    timestamp: int
    data: dict[str, Any] | None = None
    """What the session said of itself; unlike `extra`, nobody vouches for it."""


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
    """Event `TopicSubscription`, with the answer SUBSCRIBED."""

    subscription: Annotated[SubscriptionInfo, FLAT]
    req_id: int = 0

    @derived
    def answer(self) -> str:
        return "SUBSCRIBED"


class TopicUnsubscribed(Notice, frozen=True):
    """Event `TopicSubscription`, with the answer UNSUBSCRIBED."""

    topic: str
    name: Annotated[str, ALWAYS] = DEFAULT_SUBSCRIPTION
    req_id: int = 0

    @derived
    def answer(self) -> str:
        return "UNSUBSCRIBED"


class TopicArticles(msgspec.Struct, frozen=True):
    """What a subscription hands out of one topic; no messages: there is nothing (yet)."""

    messages: tuple[Article, ...]

    @derived
    def answer(self) -> str:
        return "TopicArticle" if self.messages else "EmptyTopic"


class TopicMessages(Notice, frozen=True):
    """No messages: there is nothing for the caller (yet)."""

    topic: str
    name: Annotated[str, ALWAYS] = DEFAULT_SUBSCRIPTION
    messages: Annotated[tuple[Article, ...], ALWAYS] = ()
    req_id: int = 0

    @derived
    def answer(self) -> str:
        return "TopicArticle" if self.messages else "EmptyTopic"


class EachTopicMessages(Notice, frozen=True):
    """Event `TopicMessages`, where no topic was named: those of each, by topic."""

    name: str
    topics: dict[str, TopicArticles]
    req_id: int = 0


class TopicAcked(Notice, frozen=True):
    """Everything up to `floor` is done, and that is on disk."""

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
    """That of the last put that is on disk, 0 before the first."""
    req_id: int = 0


class TopicSubscriptions(Notice, frozen=True):
    subscriptions: tuple[SubscriptionInfo, ...]
    req_id: int = 0


class CallAnswered(Notice, frozen=True):
    """Event `RPC`: what the service answered."""

    payload: bytes
    content_type: Annotated[str, OPTIONAL]
    req_id: int = 0


class Enqueued(Notice, frozen=True):
    """Event `StreamEnqueue`: the stream has the event, and will not lose it."""

    message_id: Annotated[str, Wire("msg_id")]
    req_id: int = 0


class CommandReceived(Notice, frozen=True):
    """Event `HCommand`: somebody asks this client to do something."""

    command: dict[str, Any]
    req_id: int = 0


class CommandAnswered(Notice, frozen=True):
    """Event `HResult`: how the client's own command ended."""

    result: dict[str, Any]
    req_id: int = 0


class NotificationNew(Notice, frozen=True):
    channel: str
    revision: int
    notification: Notification


class NotificationRead(Notice, frozen=True):
    """Notifications were read that had not been: these, or all up to a timestamp."""

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
    """Event `MarkNotificationAsRead`. `unread` is how many are left."""

    req_id: int
    marked: Annotated[int, Wire(unless="error")] = 0
    unread: Annotated[int, Wire(unless="error")] = 0
    unknown: tuple[str, ...] = ()
    error: HubbubError | None = None

    @derived
    def success(self) -> bool:
        return self.error is None


class NotificationPage(Notice, frozen=True):
    """Event `NotificationList`: newest first, or in rising order behind a timestamp."""

    channel: str
    notifications: tuple[Notification, ...]
    more: bool
    state: Annotated[NotificationState, FLAT]
    req_id: int = 0
