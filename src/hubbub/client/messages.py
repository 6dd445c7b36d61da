"""Messages for applications, and conversion between application data and payloads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TypedDict

import msgspec

from hubbub.client.envelope import NO_ATTRIBUTES, PublishEnvelope, attributes_of
from hubbub.client.events import Gap
from hubbub.domain import messages, notices, search, services
from hubbub.domain.errors import InvalidPayload
from hubbub.domain.messages import BINARY, JSON, TEXT, Attributes, is_json, is_text
from hubbub.domain.notices import MessageDelivery
from hubbub.domain.requests import PublishItem
from hubbub.domain.topics import Article

_decode_json = msgspec.json.Decoder().decode
_encode_json = msgspec.json.Encoder().encode
_ITEM_OPTIONS = (
    "content_type", "store", "retain", "push", "transient", "security_token", "push_options",
    "idempotency_key",
)  # fmt: skip


class Message(msgspec.Struct, gc=False):
    """A message of a channel. `serial` is 0 if the message has no position in the channel;
    `retained`: it is the channel's retained message, not a new one; `gap`: messages are missing
    directly before this one."""

    id: str
    channel: str
    event: str
    payload: bytes
    content_type: str
    published_at: int
    """Milliseconds since 1970."""
    serial: int
    publisher: str | None
    retained: bool = False
    gap: Gap | None = None
    attributes: Attributes = NO_ATTRIBUTES
    """The rarer envelope fields, such as `conversation_id`; unset fields are None."""

    @property
    def data(self) -> Any:
        """The payload decoded by its content type: a JSON value, a text, or bytes."""
        return decode_data(self.payload, self.content_type)

    @property
    def time(self) -> datetime:
        return datetime.fromtimestamp(self.published_at / 1000, UTC)


class TopicMessage(Message, gc=False):
    """A message from a durable subscription. `redelivered`: it may have been delivered before;
    `deliveries`: the known number of deliveries."""

    deliveries: int = 1
    redelivered: bool = False
    subscription: str = ""
    epoch: str = ""
    """Serials of different epochs are not comparable; empty if unknown."""


class Receipt(msgspec.Struct, frozen=True):
    """Id and serial of a publish. `duplicate`: the hub already had this put; without id and serial
    if its message has been deleted."""

    id: str
    serial: int
    duplicate: bool = False


class Item(msgspec.Struct, frozen=True):
    """One of the messages of `Client.publish_many`."""

    channel: str
    data: Any
    event: str = ""
    content_type: str | None = None
    store: bool = False
    retain: bool = False
    push: bool = False
    transient: bool = False
    attributes: Attributes | None = None
    security_token: str | None = None
    push_options: dict[str, Any] | None = None
    """With `push`: the notification for devices, with the protocol's names (`title`, `body`, `ttl`
    …)."""
    idempotency_key: str | None = None
    """A repeat with the same key gets the original's receipt, with `duplicate`."""


class PutOptions(PublishEnvelope, total=False):
    """`content_type`: the type of bytes and texts."""

    content_type: str | None


class PublishFlags(TypedDict, total=False):
    """Flags of a message, which have an effect if the channel's rules allow it. With `push`,
    `push_options` describe the notification for devices, with the protocol's names (`title`, `body`
    …). A repeat with the same `idempotency_key` gets the original's response: on a channel that
    stores the message, while it is stored; otherwise for five minutes."""

    store: bool
    retain: bool
    push: bool
    transient: bool
    push_options: dict[str, Any] | None
    idempotency_key: str | None


class PublishOptions(PutOptions, PublishFlags, total=False):
    """All keyword arguments of a publish."""


def item_of(channel: str, data: object, event: str, options: Mapping[str, object]) -> Item:
    """Raises `InvalidAttribute`, and `TypeError` for an unknown option."""
    envelope: dict[str, Any] = {**options}
    own = {name: envelope.pop(name) for name in _ITEM_OPTIONS if name in envelope}
    return Item(channel, data, event, attributes=attributes_of(envelope), **own)


class ServiceAnswer(services.ServiceReply, frozen=True):
    """The response of a service to a call."""

    @property
    def data(self) -> Any:
        """The payload decoded by its content type: a JSON value, a text, or bytes."""
        return decode_data(self.payload, self.content_type)


class HistoryPage(msgspec.Struct, frozen=True):
    """Messages in ascending order. `recovered` is False if requested messages no longer exist;
    `more`: another page follows in the same direction. `next` is its bound, set if filters dropped
    messages."""

    channel: str
    messages: tuple[Message, ...]
    epoch: str
    head: int
    recovered: bool
    more: bool
    next: int | None = None

    def end(self, forwards: bool) -> int | None:
        """The bound of the next page; None if unknown."""
        if self.next is not None or not self.messages:
            return self.next
        return self.messages[-1 if forwards else 0].serial

    def joined(self, following: HistoryPage, forwards: bool) -> HistoryPage:
        """Joins this page with the next one in the direction of the query."""
        first, last = (self, following) if forwards else (following, self)
        return HistoryPage(
            self.channel,
            first.messages + last.messages,
            following.epoch,
            following.head,
            self.recovered and following.recovered,
            following.more and following.end(forwards) is not None,
            following.next,
        )


class Thread(msgspec.Struct, frozen=True):
    """A conversation with stored messages. `first` is the serial of the oldest one, `updated_at`
    (ms since 1970) the publication time of the newest, `status` the status in the newest
    `hConvState` message."""

    conversation_id: str
    first: Message
    messages: int
    last_serial: int
    updated_at: int
    status: str | None


class ThreadsPage(msgspec.Struct, frozen=True):
    """Threads in the order of their first messages; `more`: further threads follow the last one."""

    channel: str
    threads: tuple[Thread, ...]
    epoch: str
    more: bool


def from_threads(page: notices.ThreadsPage) -> ThreadsPage:
    threads = tuple(
        Thread(
            each.conversation_id,
            _convert(each.first, False),
            each.messages,
            each.last_serial,
            each.updated_at,
            each.status,
        )
        for each in page.threads
    )
    return ThreadsPage(page.channel, threads, page.epoch, page.more)


class SearchHit(msgspec.Struct, frozen=True):
    """A stored message that was found; `score` is greater for better hits, from 0 to 1."""

    message: Message
    score: float


class SearchPage(msgspec.Struct, frozen=True):
    """Hits in the requested order. There may be more if `cursor` is not None. Older messages of
    `behind` channels are not indexed yet."""

    hits: tuple[SearchHit, ...]
    cursor: str | None
    behind: int


def from_search(page: search.SearchPage) -> SearchPage:
    hits = tuple(SearchHit(_convert(each.message, False), each.score) for each in page.hits)
    return SearchPage(hits, page.cursor, page.behind)


def from_delivery(delivery: MessageDelivery) -> Message:
    return _convert(delivery.message, delivery.retained)


def from_history(found: Iterable[messages.Message]) -> tuple[Message, ...]:
    return tuple(_convert(each, False) for each in found)


def from_article(article: Article, subscription: str, epoch: str = "") -> TopicMessage:
    source = article.message
    return TopicMessage(
        source.id,
        source.channel,
        source.event,
        source.payload,
        source.content_type,
        source.published_at,
        source.serial,
        source.publisher,
        attributes=source.attributes or NO_ATTRIBUTES,
        deliveries=article.deliveries,
        redelivered=article.redelivered,
        subscription=subscription,
        epoch=epoch,
    )


def _convert(source: messages.Message, retained: bool) -> Message:
    return Message(
        source.id,
        source.channel,
        source.event,
        source.payload,
        source.content_type,
        source.published_at,
        source.serial,
        source.publisher,
        retained,
        attributes=source.attributes or NO_ATTRIBUTES,
    )


def decode_data(payload: bytes, content_type: str) -> Any:
    if is_json(content_type):
        return _decode_json(payload)
    return payload.decode() if is_text(content_type) else payload


def encode_data(data: object, content_type: str | None = None) -> tuple[bytes, str]:
    """The payload and its type. Bytes and texts are sent unchanged, other data as JSON; a given
    content type applies to bytes and texts."""
    if isinstance(data, str):
        return data.encode(), content_type or TEXT
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data), content_type or BINARY
    if content_type is not None and not is_json(content_type):
        raise InvalidPayload(
            f"data for {content_type!r} must be bytes or a text, not {type(data).__name__}"
        )
    try:
        return _encode_json(data), JSON
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidPayload(f"the data cannot be written as JSON: {error}") from None


def publish_item(item: Item, req_id: int | None) -> PublishItem:
    payload, content_type = encode_data(item.data, item.content_type)
    return PublishItem(
        item.channel,
        item.event,
        payload,
        content_type,
        store=item.store,
        push=item.push,
        retain=item.retain,
        transient=item.transient,
        req_id=req_id,
        attributes=item.attributes,
        security_token=item.security_token,
        push_options=item.push_options,
        idempotency_key=item.idempotency_key,
    )
