"""What a client can ask of the hub, independent of the encoding it used.

A request id is whatever integer the client chose; 0 stands for "none given".
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from hubbub.domain.documents.text import JsonList
from hubbub.domain.errors import HubbubError
from hubbub.domain.events import Ping as Ping
from hubbub.domain.events import Pong as Pong
from hubbub.domain.events import Request as Request
from hubbub.domain.filters.definition import FilterDefinition
from hubbub.domain.messages import Attributes
from hubbub.domain.topics import DEFAULT_SUBSCRIPTION, SubscriptionOptions
from hubbub.domain.wire import FLAT, LOCAL, OPTIONAL, Wire

_EXTRA = Wire(inside="extra")


class Close(Request, frozen=True):
    """The client leaves for good: its saved state can go. Not answered."""

    req_id: int = 0


class Authenticate(Request, frozen=True):
    """Exactly one of the two is set."""

    req_id: int = 0
    token: str | None = None
    credentials: bytes | None = None


class Position(msgspec.Struct, frozen=True):
    """A place in a channel: right after the message with this serial, and at this version of its
    document."""

    channel: str
    serial: int
    epoch: str = ""
    document_version: int | None = None
    document_epoch: str | None = None


class Attachment(msgspec.Struct, frozen=True):
    """What a client of Hubiquitus says of the session with which it goes on: its full address, and
    how many events it got there."""

    publisher: str
    rid: int | None


class Restore(Request, frozen=True):
    restore_key: str
    req_id: int = 0
    positions: tuple[Position, ...] = ()
    attachment: Annotated[Attachment | None, LOCAL] = None
    """Must be true of the session, if it is given."""


class ChannelRequest(msgspec.Struct, frozen=True):
    """A channel to subscribe to, or a pattern; with `serial` or `timestamp`, what was missed is
    sent too; with `document_version`, what its document changed since."""

    channel: str
    timestamp: int | None = None
    serial: int | None = None
    epoch: str | None = None
    document_version: int | None = None
    document_epoch: str | None = None
    by_pattern: bool = False
    """The channel is followed as long as a pattern of the session matches it, and only so."""
    presence: dict[str, Any] | None = None
    """What presence shows of the session in this channel."""
    token: str | None = None
    """Permits the session's user, or anybody, to subscribe to this channel."""


class Subscribe(Request, frozen=True):
    channels: tuple[ChannelRequest, ...]
    req_id: int = 0


class Unsubscribe(Request, frozen=True):
    channels: tuple[str, ...]
    req_id: int = 0


class Producer(msgspec.Struct, frozen=True):
    """As which of its puts to the channel a producer sends a message; see `domain.topics`."""

    id: str
    sequence: int
    fence: int = 0


class PublishItem(msgspec.Struct, frozen=True, gc=False):
    """One message to publish. Without a request id (None) nobody waits for an answer."""

    channel: str
    event: Annotated[str, OPTIONAL]
    payload: bytes
    content_type: Annotated[str, OPTIONAL]
    store: Annotated[bool, _EXTRA] = False
    push: Annotated[bool, _EXTRA] = False
    retain: Annotated[bool, _EXTRA] = False
    transient: Annotated[bool, _EXTRA] = False
    req_id: int | None = None
    producer: Producer | None = None
    """Makes the publish a put that can be repeated."""
    topic_key: Annotated[str | None, LOCAL] = None
    """What the owner of a registered topic knows."""
    attributes: Annotated[Attributes | None, Wire(flat_in_json=True)] = None
    """The rarer fields of the envelope; None where the publisher gave none of them. Without
    `producer_id` and `producer_seq`, which the engine takes from `producer`."""
    push_options: Annotated[dict[str, Any] | None, _EXTRA] = None
    """What `domain.push.options` reads."""
    security_token: str | None = None
    """For features that ask for one; ends with the request and is in no message."""
    idempotency_key: str | None = None
    """A repeat under the same key is answered like the original; see `domain.topics`."""
    most_bytes: Annotated[int, LOCAL] = 0
    """The payload may be so large; 0: as large as every message. Only the hub sets it."""


class Publish(Request, frozen=True):
    items: Annotated[tuple[PublishItem, ...], Wire("publishes")]


class History(Request, frozen=True):
    """A page of messages. At most one bound is set; none means the newest page."""

    channel: str
    req_id: int = 0
    after: int | None = None
    before: int | None = None
    after_time: int | None = None
    before_time: int | None = None
    epoch: str | None = None
    limit: int = 0
    conversation_id: str | None = None
    """Only the messages of this conversation; not together with times."""
    filter: dict[str, Any] | None = None
    """Beside the session's own: what `read_definition` of `domain.filters` reads, without a
    name."""


class SetFilter(Request, frozen=True):
    """Of the session. One of the same name and channel is replaced."""

    definition: Annotated[FilterDefinition, FLAT]
    req_id: int = 0


class UnsetFilter(Request, frozen=True):
    """Without a channel, all of the name."""

    name: str
    channel: str | None = None
    req_id: int = 0


class ListFilters(Request, frozen=True):
    """The session's filters for a channel; without one, all."""

    channel: str | None = None
    req_id: int = 0


FilterRequest = SetFilter | UnsetFilter | ListFilters


class Threads(Request, frozen=True):
    """A page of a channel's conversations; see `domain.threads.ThreadsQuery`. `limit` 0: as many
    as the hub thinks fit."""

    channel: str
    req_id: int = 0
    after: int | None = None
    limit: int = 0
    status: str | None = None


class DocumentGet(Request, frozen=True):
    """A document, a part of it, as it was, or what changed since a version."""

    channel: str
    req_id: int = 0
    path: str = ""
    since: int | None = None
    epoch: str | None = None
    at: int | None = None
    at_time: int | None = None
    """Milliseconds since 1970."""


class DocumentChange(Request, frozen=True):
    """Operations on a document, all or none of them. Without a request id (None) nobody waits for
    an answer."""

    channel: str
    ops: JsonList
    req_id: int | None = None
    expected_version: int | None = None
    epoch: str | None = None
    change_id: str = ""
    producer: Producer | None = None


class PresenceQuery(Request, frozen=True):
    """With `data`, presence shows that of the session in the channel from now on."""

    channel: str
    req_id: int = 0
    data: dict[str, Any] | None = None


class TopicSubscribe(Request, frozen=True):
    """A durable subscription; see `domain.topics` for what it and the following ones do."""

    topic: str
    name: str = DEFAULT_SUBSCRIPTION
    options: SubscriptionOptions | None = None
    start: Literal["new", "first"] | int = "new"
    req_id: int = 0


class TopicUnsubscribe(Request, frozen=True):
    topic: str
    name: str = DEFAULT_SUBSCRIPTION
    req_id: int = 0


class TopicGet(Request, frozen=True):
    """Without a topic: one message for each topic with a subscription of this name."""

    topic: str | None = None
    name: str = DEFAULT_SUBSCRIPTION
    limit: int = 1
    wait_seconds: Annotated[float, Wire("wait")] = 0.0
    consumer: str = ""
    ack_up_to: int | None = None
    req_id: int = 0
    after: int = 0
    """Only what is behind this serial; see `domain.topics.GetMessages`."""


class TopicAck(Request, frozen=True):
    """Exactly one of `serials` and `up_to` is given."""

    topic: str
    name: str = DEFAULT_SUBSCRIPTION
    serials: tuple[int, ...] = ()
    up_to: int | None = None
    consumer: str = ""
    give_back: bool = False
    req_id: int = 0


class ProducerOpen(Request, frozen=True):
    topic: str
    producer: str
    req_id: int = 0


class TopicList(Request, frozen=True):
    """The caller's own durable subscriptions."""

    req_id: int = 0


class Call(Request, frozen=True):
    """Of a method of a service. With 0 seconds, as long as the hub allows."""

    method: str
    payload: bytes
    content_type: Annotated[str, OPTIONAL]
    timeout_seconds: Annotated[float, Wire("timeout")] = 0.0
    req_id: int = 0


class Enqueue(Request, frozen=True):
    """An event for a stream; see `domain.services`."""

    stream: str
    event: Annotated[str, OPTIONAL]
    payload: bytes
    content_type: Annotated[str, OPTIONAL]
    req_id: int = 0


class SendCommand(Request, frozen=True):
    """An hCommand, as `domain.commands` reads it."""

    command: dict[str, Any]
    req_id: int = 0


class AnswerCommand(Request, frozen=True):
    """The hResult of a command that the client was handed. Not answered."""

    result: dict[str, Any]
    req_id: int = 0


class MarkNotifications(Request, frozen=True):
    """As read. Exactly one of `ids`, `up_to` (a timestamp) and `all` is given. Without a request id
    nobody waits for an answer."""

    channel: str
    ids: tuple[str, ...] = ()
    up_to: int | None = None
    all: bool = False
    req_id: int | None = None


class NotificationStateQuery(Request, frozen=True):
    channel: str
    req_id: int = 0


class NotificationQuery(Request, frozen=True):
    """A page of notifications. At most one of the bounds, timestamps, is given."""

    channel: str
    unread: bool = False
    after: int | None = None
    before: int | None = None
    limit: int = 0
    req_id: int = 0


NotificationRequest = MarkNotifications | NotificationStateQuery | NotificationQuery

ServiceRequest = Call | Enqueue

TopicRequest = TopicSubscribe | TopicUnsubscribe | TopicGet | TopicAck | ProducerOpen | TopicList


class Rejected(Request, frozen=True):
    """A request that could not be read; the others of its frame are not affected."""

    error: HubbubError
    req_id: int = 0
