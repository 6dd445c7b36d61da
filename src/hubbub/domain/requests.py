"""Requests of a client to the hub, independent of the encoding.

A request id is any integer chosen by the client; 0 means "none".
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
    """The client leaves for good, and its saved state is deleted. No response."""

    req_id: int = 0


class Authenticate(Request, frozen=True):
    """Exactly one of the two fields is set."""

    req_id: int = 0
    token: str | None = None
    credentials: bytes | None = None


class Position(msgspec.Struct, frozen=True):
    """A position in a channel: directly after the message with this serial, and at this version of
    its document."""

    channel: str
    serial: int
    epoch: str = ""
    document_version: int | None = None
    document_epoch: str | None = None


class ResumedSession(msgspec.Struct, frozen=True):
    """Identifies the session that a Hubiquitus client resumes: its full JID, and how many events
    the client received."""

    publisher: str
    rid: int | None


class Restore(Request, frozen=True):
    restore_key: str
    req_id: int = 0
    positions: tuple[Position, ...] = ()
    attachment: Annotated[ResumedSession | None, LOCAL] = None
    """If given, it must match the session."""


class SubscribeItem(msgspec.Struct, frozen=True):
    """A channel or pattern to subscribe to. With `serial` or `timestamp`, missed messages are sent
    as well; with `document_version`, missed changes of the document."""

    channel: str
    timestamp: int | None = None
    serial: int | None = None
    epoch: str | None = None
    document_version: int | None = None
    document_epoch: str | None = None
    by_pattern: bool = False
    """The channel is followed only as long as a pattern of the session matches it."""
    presence: dict[str, Any] | None = None
    """The session's presence data in this channel."""
    token: str | None = None
    """A token that permits the session's user, or any user, to subscribe to this channel."""


class Subscribe(Request, frozen=True):
    channels: tuple[SubscribeItem, ...]
    req_id: int = 0


class Unsubscribe(Request, frozen=True):
    channels: tuple[str, ...]
    req_id: int = 0


class Producer(msgspec.Struct, frozen=True):
    """The producer id and sequence number of a put; see `domain.topics`."""

    id: str
    sequence: int
    fence: int = 0


class PublishItem(msgspec.Struct, frozen=True, gc=False):
    """One message to publish. Without a request id (None), no response is sent."""

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
    """Makes the publish an idempotent put."""
    topic_key: Annotated[str | None, LOCAL] = None
    """The key of a registered topic, known to its owner."""
    attributes: Annotated[Attributes | None, Wire(flat_in_json=True)] = None
    """The rarer envelope fields; None if the publisher gave none. `producer_id` and `producer_seq`
    are absent: the engine takes them from `producer`."""
    push_options: Annotated[dict[str, Any] | None, _EXTRA] = None
    """Read by `domain.push.options`."""
    security_token: str | None = None
    """For features that require one; discarded with the request and part of no message."""
    idempotency_key: str | None = None
    """A repeat with the same key receives the original's response; see `domain.topics`."""
    most_bytes: Annotated[int, LOCAL] = 0
    """A higher size limit for the payload; 0: the normal limit. Only the hub sets it."""


class Publish(Request, frozen=True):
    items: Annotated[tuple[PublishItem, ...], Wire("publishes")]


class History(Request, frozen=True):
    """Reads a page of messages. At most one bound is set; without a bound, the newest page."""

    channel: str
    req_id: int = 0
    after: int | None = None
    before: int | None = None
    after_time: int | None = None
    before_time: int | None = None
    epoch: str | None = None
    limit: int = 0
    conversation_id: str | None = None
    """Only messages of this conversation; not combined with times."""
    filter: dict[str, Any] | None = None
    """A filter in addition to the session's own: an object for `read_definition` of
    `domain.filters`, without a name."""


class SetFilter(Request, frozen=True):
    """Sets a filter of the session. A filter with the same name and channel is replaced."""

    definition: Annotated[FilterDefinition, FLAT]
    req_id: int = 0


class UnsetFilter(Request, frozen=True):
    """Removes a filter of the session. Without a channel, all filters of the name are removed."""

    name: str
    channel: str | None = None
    req_id: int = 0


class ListFilters(Request, frozen=True):
    """The session's filters for a channel; without a channel, all filters."""

    channel: str | None = None
    req_id: int = 0


FilterRequest = SetFilter | UnsetFilter | ListFilters


class Threads(Request, frozen=True):
    """A page of a channel's conversations; see `domain.threads.ThreadsQuery`. `limit` 0: the hub's
    default."""

    channel: str
    req_id: int = 0
    after: int | None = None
    limit: int = 0
    status: str | None = None


class DocumentGet(Request, frozen=True):
    """Reads a document, a part of it, an earlier state, or the changes since a version."""

    channel: str
    req_id: int = 0
    path: str = ""
    since: int | None = None
    epoch: str | None = None
    at: int | None = None
    at_time: int | None = None
    """Milliseconds since 1970."""


class ChangeDocument(Request, frozen=True):
    """Operations on a document, applied all or none. Without a request id (None), no response is
    sent."""

    channel: str
    ops: JsonList
    req_id: int | None = None
    expected_version: int | None = None
    epoch: str | None = None
    change_id: str = ""
    producer: Producer | None = None


class PresenceQuery(Request, frozen=True):
    """Requests the members of a channel. With `data`, also sets the session's presence data in the
    channel."""

    channel: str
    req_id: int = 0
    data: dict[str, Any] | None = None


class TopicSubscribe(Request, frozen=True):
    """Creates a durable subscription; see `domain.topics` for this and the following requests."""

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
    """Requests messages of a durable subscription. Without a topic: one message from each topic
    with a subscription of this name."""

    topic: str | None = None
    name: str = DEFAULT_SUBSCRIPTION
    limit: int = 1
    wait_seconds: Annotated[float, Wire("wait")] = 0.0
    consumer: str = ""
    ack_up_to: int | None = None
    req_id: int = 0
    after: int = 0
    """Only messages after this serial; see `domain.topics.GetMessages`."""


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
    """Calls a method of a service. A timeout of 0 seconds means the hub's maximum."""

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
    """The hResult of a command that the client received. No response."""

    result: dict[str, Any]
    req_id: int = 0


class MarkNotifications(Request, frozen=True):
    """Marks notifications as read. Exactly one of `ids`, `up_to` (a timestamp) and `all` is given.
    Without a request id, no response is sent."""

    channel: str
    ids: tuple[str, ...] = ()
    up_to: int | None = None
    all: bool = False
    req_id: int | None = None


class NotificationStateQuery(Request, frozen=True):
    channel: str
    req_id: int = 0


class NotificationQuery(Request, frozen=True):
    """A page of notifications. At most one of the bounds, which are timestamps, is given."""

    channel: str
    unread: bool = False
    after: int | None = None
    before: int | None = None
    limit: int = 0
    req_id: int = 0


TopicRequest = TopicSubscribe | TopicUnsubscribe | TopicGet | TopicAck | ProducerOpen | TopicList


class UndecodableRequest(Request, frozen=True):
    """A request that could not be decoded; other requests of its frame are processed."""

    error: HubbubError
    req_id: int = 0
