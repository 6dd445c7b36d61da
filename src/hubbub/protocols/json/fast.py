"""Hand-written JSON for the hot path: deliveries, acknowledgements, publishes, commands and
results. Each function writes or reads the same as the general codec (`structs`), which a test
verifies."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from hubbub.domain.errors import HubbubError
from hubbub.domain.messages import JSON, Attributes, Message
from hubbub.domain.notices import (
    CommandAnswered,
    MessageDelivery,
    Published,
    PublishResult,
    TopicArticles,
    TopicMessages,
)
from hubbub.domain.payloads import readable_json, typed_payload, with_media_type
from hubbub.domain.requests import Producer, Publish, PublishItem, SendCommand
from hubbub.domain.topics import Article
from hubbub.protocols import hubbub_pb2 as pb
from hubbub.protocols.attributes import says_nothing
from hubbub.protocols.checks import check_batch, check_event_name
from hubbub.protocols.json.payloads import (
    EncodedPayload,
    given_payload,
    read_payload,
    write_payload,
)
from hubbub.protocols.json.structs import Int64, JsonStructs, Serial, json_type
from hubbub.protocols.mapping import descriptor
from hubbub.protocols.structs import Convert

_encode = msgspec.json.Encoder().encode
_GENERAL = JsonStructs(strict=False)
_Attributes = json_type((Attributes,), descriptor(pb.Attributes))


# -- a message to deliver -------------------------------------------------------------------------


def delivery_json(message: Message) -> bytes:
    """The whole envelope that delivers a message."""
    if message.content_type == JSON and message.attributes is None:  # all of it in one splice
        return b'{"event":"Publish","payload":%b{"json":%b},"msgID":%b,"ts":%d%b%b}' % (
            _place(message.channel, message.event),
            message.payload,
            _encode(message.id),
            message.published_at,
            b',"channelSerial":"%d"' % message.serial if message.serial else b"",
            _end(message.publisher),
        )
    return b'{"event":"Publish","payload":%b}' % message_json(message)


def message_json(message: Message) -> bytes:
    """The text of a ChannelPublish, concatenated from its parts."""
    if message.content_type == JSON:
        text = b'%b{"json":%b},"msgID":%b,"ts":%d%b%b' % (
            _place(message.channel, message.event),
            message.payload,
            _encode(message.id),
            message.published_at,
            b',"channelSerial":"%d"' % message.serial if message.serial else b"",
            _end(message.publisher),
        )
    else:
        text = _other_message_json(message)
    if message.attributes is None:
        return text
    return with_attributes(text, message.attributes)


def _other_message_json(message: Message) -> bytes:
    payload, content_type = write_payload(message.payload, message.content_type)
    return b'%b%b,"msgID":%b,"ts":%d%b%b' % (
        _place(message.channel, message.event),
        _encode(payload),
        _encode(message.id),
        message.published_at,
        b',"channelSerial":"%d"' % message.serial if message.serial else b"",
        _end(message.publisher, content_type),
    )


@lru_cache(maxsize=8192)
def _place(channel: str, event: str) -> bytes:
    return b'{"channel":%b,"event":%b,"payload":' % (_encode(channel), _encode(event))


@lru_cache(maxsize=8192)
def _end(publisher: str | None, content_type: str | None = None) -> bytes:
    said = b"" if content_type is None else b',"contentType":%b' % _encode(content_type)
    return said + (b"}" if publisher is None else b',"publisher":%b}' % _encode(publisher))


def with_attributes(text: bytes, attributes: Attributes | None) -> bytes:
    """Inserts the attributes into the text of a non-empty JSON object."""
    if attributes is None or says_nothing(attributes):
        return text
    members = _encode(msgspec.convert(attributes, _Attributes, from_attributes=True))[1:]
    return b"%b,%b" % (text[:-1], members)


class _Article(Struct, gc=False):
    """A TopicArticle without attributes."""

    channel: str
    event: str
    payload: EncodedPayload
    message_id: str = field(name="msgID")
    timestamp: int = field(name="ts")
    serial: str | UnsetType = field(name="channelSerial")
    content_type: str | UnsetType = field(name="contentType")
    publisher: str | UnsetType
    deliveries: int
    redelivered: bool


def _article(article: Article) -> _Article | Raw:
    """Articles are encoded together, which takes half the time of concatenating texts."""
    message, attributes = article.message, article.message.attributes
    payload, content_type = write_payload(message.payload, message.content_type)
    plain = _Article(
        message.channel,
        message.event,
        payload,
        message.id,
        message.published_at,
        str(message.serial) if message.serial else UNSET,
        UNSET if content_type is None else content_type,
        UNSET if message.publisher is None else message.publisher,
        article.deliveries,
        article.redelivered,
    )
    if attributes is None or says_nothing(attributes):
        return plain
    return Raw(with_attributes(_encode(plain), attributes))


def articles_json(found: TopicArticles | TopicMessages) -> bytes:
    """The text of a TopicArticles."""
    return _encode({"answer": found.answer, "messages": _articles(found.messages)})


def _messages(messages: Iterable[Message]) -> Raw:
    return Raw(b"[%b]" % b",".join([message_json(each) for each in messages]))


def _articles(articles: Iterable[Article]) -> list[_Article | Raw]:
    return [_article(each) for each in articles]


FASTER: dict[str, Convert] = {
    "HistoryResponse.messages": _messages,
    "TopicMessagesNotice.messages": _articles,
    "TopicArticles.messages": _articles,
}


class _PlainDelivery(Struct, forbid_unknown_fields=True, gc=False):
    """A ChannelPublish without attributes."""

    channel: str
    event: str
    payload: EncodedPayload
    message_id: str = field(name="msgID")
    timestamp: Int64 = field(name="ts")
    serial: Serial | None = field(default=None, name="channelSerial")
    content_type: str | None = field(default=None, name="contentType")
    publisher: str | None = None
    retained: bool | None = None
    previous_serial: Serial | None = field(default=None, name="previousSerial")


_delivery = msgspec.json.Decoder(_PlainDelivery).decode


def read_delivery(text: Raw) -> MessageDelivery | None:
    """None: the general codec must decode it."""
    try:
        found = _delivery(text)
    except msgspec.ValidationError:
        return None
    body, written_as = read_payload(found.payload)
    previous = found.previous_serial
    return MessageDelivery(
        Message(
            found.message_id,
            "",
            found.channel,
            found.event,
            body,
            found.content_type or written_as,
            found.timestamp,
            int(found.serial or 0),
            found.publisher,
        ),
        found.retained or False,
        None if previous is None else int(previous),
    )


# -- an acknowledgement ---------------------------------------------------------------------------


def ack_json(notice: Published) -> bytes:
    results = notice.results
    if len(results) == 1:
        return b'{"published":[%b]}' % _result_json(results[0])
    return b'{"published":[%b]}' % b",".join([_result_json(each) for each in results])


def _result_json(result: PublishResult) -> bytes:
    if result.error is not None or result.message_id is None or result.duplicate:
        return _encode(_GENERAL.record(result, descriptor(pb.Response)))
    return b'{"reqID":%d,"msgID":%b%b,"success":true}' % (
        result.req_id,
        _encode(result.message_id),
        b',"channelSerial":"%d"' % result.serial if result.serial else b"",
    )


# -- a publish ------------------------------------------------------------------------------------


class _Extra(Struct, forbid_unknown_fields=True, gc=False):
    store: bool | None = None
    push: bool | None = None
    retain: bool | None = None
    transient: bool | None = None


class _Producer(Struct, forbid_unknown_fields=True, gc=False):
    id: str
    sequence: Serial
    fence: Serial | None = None


class _Item(Struct, forbid_unknown_fields=True, gc=False):
    """A PubRequestInfo without attributes."""

    channel: str
    payload: EncodedPayload
    event: str | None = None
    extra: _Extra | None = None
    req_id: Int64 | None = field(default=None, name="reqID")
    content_type: str | None = field(default=None, name="contentType")
    producer: _Producer | None = None


class _Items(Struct, gc=False):
    publishes: list[_Item]


class _Envelope(Struct, gc=False):
    event: Literal["Publish"]
    payload: _Items


_envelope = msgspec.json.Decoder(_Envelope).decode


def read_publish(envelope: bytes) -> Publish | None:
    """None: the envelope is not a Publish, is invalid, or has rare fields; the general codec must
    decode it."""
    try:
        found = _envelope(envelope).payload.publishes
        if len(found) == 1:
            return Publish((_item(found[0]),))
        check_batch("Publish", len(found))
        return Publish(tuple([_item(each) for each in found]))
    except (msgspec.DecodeError, HubbubError, RecursionError):
        return None


_check_event_name = lru_cache(maxsize=8192)(check_event_name)


def _item(found: _Item) -> PublishItem:
    payload = found.payload
    if payload.json and payload.text is UNSET and payload.base64 is UNSET:
        body, content_type = readable_json(bytes(payload.json)), JSON
    else:
        body, content_type = given_payload(payload, "")
    attributes = None
    if found.content_type:
        body, content_type = typed_payload(body, found.content_type)
        attributes = with_media_type(None, content_type, found.content_type)
    event, extra, producer = found.event, found.extra, found.producer
    if event:
        _check_event_name(event)
    if extra is None and producer is None and attributes is None:
        return PublishItem(
            found.channel, event or "", body, content_type, False, False, False, False, found.req_id
        )
    extra = extra or _NO_EXTRA
    return PublishItem(
        found.channel,
        event or "",
        body,
        content_type,
        extra.store or False,
        extra.push or False,
        extra.retain or False,
        extra.transient or False,
        found.req_id,
        None if producer is None else _producer(producer),
        attributes=attributes,
    )


def _producer(found: _Producer) -> Producer:
    return Producer(found.id, int(found.sequence), int(found.fence or 0))


_NO_EXTRA = _Extra()


# -- a command and its result ---------------------------------------------------------------------


class _Command(Struct, gc=False):
    """A CommandMessage."""

    command: dict[str, Any]
    req_id: Int64 | None = field(default=None, name="reqID")


class _CommandEnvelope(Struct, gc=False):
    event: Literal["HCommand"]
    payload: _Command


_command_envelope = msgspec.json.Decoder(_CommandEnvelope).decode


def read_command(envelope: bytes) -> SendCommand | None:
    """None: the general codec must decode it."""
    try:
        found = _command_envelope(envelope).payload
    except (msgspec.DecodeError, RecursionError):
        return None
    return SendCommand(found.command, found.req_id or 0)


def result_json(notice: CommandAnswered) -> bytes:
    result = _encode(notice.result)
    if not notice.req_id:
        return b'{"result":%b}' % result
    return b'{"result":%b,"reqID":%d}' % (result, notice.req_id)
