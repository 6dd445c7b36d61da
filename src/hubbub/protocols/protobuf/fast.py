"""Hand-written protobuf for the hot path: deliveries, acknowledgements, publishes. Each function
writes or reads the same as the general codec (`structs`), which a test verifies.

A delivery is concatenated from bytes, which takes a quarter of the time of the generated classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from hubbub.domain.messages import BINARY, Message
from hubbub.domain.notices import MessageDelivery, Published, PublishResult
from hubbub.domain.payloads import typed_payload, with_media_type
from hubbub.domain.requests import Producer, PublishItem
from hubbub.domain.topics import Article
from hubbub.protocols import hubbub_pb2 as pb
from hubbub.protocols.attributes import says_nothing
from hubbub.protocols.checks import check_event_name, parse_serial
from hubbub.protocols.mapping import descriptor
from hubbub.protocols.protobuf.structs import ProtobufStructs

_GENERAL = ProtobufStructs(strict=False)
_ATTRIBUTES = descriptor(pb.Attributes)


# -- a message to deliver -------------------------------------------------------------------------


def message_payload(message: Message) -> bytes:
    """The encoded ChannelPublish that delivers a message."""
    payload, msg_id = message.payload, message.id.encode()
    serial = b"%d" % message.serial if message.serial else b""
    encoded = b"%b\x1a%b%b\x22%b%b\x28%b%b%b" % (
        _place(message.channel, message.event),
        varint(len(payload)),
        payload,
        varint(len(msg_id)),
        msg_id,
        varint(message.published_at),
        serial and b"\x32%c%b" % (len(serial), serial),
        _kind(message.content_type, message.publisher),
    )
    attributes = message.attributes
    if attributes is None or says_nothing(attributes):
        return encoded
    rest = pb.Attributes(**_GENERAL.record(attributes, _ATTRIBUTES)).SerializeToString()
    return b"%b\x6a%b%b" % (encoded, varint(len(rest)), rest)


@lru_cache(maxsize=8192)
def varint(number: int) -> bytes:
    """Encodes a varint. Cached, because lengths and times repeat: many messages share a
    millisecond."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


@lru_cache(maxsize=8192)
def _place(channel: str, event: str) -> bytes:
    """Fields 1 and 2 of ChannelPublish."""
    return pb.ChannelPublish(channel=channel, event=event).SerializeToString()


@lru_cache(maxsize=8192)
def _kind(content_type: str, publisher: str | None) -> bytes:
    """Fields 7 and 8 of ChannelPublish."""
    return pb.ChannelPublish(
        content_type=content_type, publisher=publisher or ""
    ).SerializeToString()


def article_payload(article: Article) -> bytes:
    """The encoded TopicArticle: the fields of a ChannelPublish, and two more."""
    return b"%b\x58%b\x60%c" % (
        message_payload(article.message),
        varint(article.deliveries),
        article.redelivered,
    )


def _entries(tag: bytes, encoded: Iterable[bytes]) -> bytes:
    return b"".join([b"%b%b%b" % (tag, varint(len(each)), each) for each in encoded])


FASTER: dict[str, Callable[[Any], bytes]] = {
    "HistoryResponse.messages": lambda them: _entries(b"\x1a", map(message_payload, them)),
    "TopicMessagesNotice.messages": lambda them: _entries(b"\x2a", map(article_payload, them)),
}
"""Encoders of repeated fields, whose entries may be anywhere in the message."""


def read_delivery(payload: bytes) -> MessageDelivery | None:
    """None: the general codec must decode it."""
    proto = pb.ChannelPublish.FromString(payload)
    if proto.HasField("attributes") or proto.HasField("previous_serial"):
        return None
    serial = proto.channel_serial
    message = Message(
        proto.msg_id,
        "",
        proto.channel,
        proto.event,
        proto.payload,
        proto.content_type or BINARY,
        proto.timestamp,
        parse_serial(serial, "the hub's Publish: `channel_serial`") if serial else 0,
        proto.publisher or None,
    )
    return MessageDelivery(message, proto.retained)


# -- an acknowledgement ---------------------------------------------------------------------------


def ack_payload(notice: Published) -> bytes:
    results = [result_proto(each) for each in notice.results]
    return pb.ChannelPubResponse(published=results).SerializeToString()


def result_proto(result: PublishResult) -> pb.Response:
    if result.error is not None:
        return pb.Response(**_GENERAL.record(result, descriptor(pb.Response)))
    return pb.Response(
        req_id=result.req_id,
        success=True,
        msg_id=result.message_id,
        channel_serial=str(result.serial) if result.serial else None,
        duplicate=result.duplicate,
    )


# -- a publish ------------------------------------------------------------------------------------


def read_item(proto: pb.PubRequestInfo) -> PublishItem | None:
    """None if the item has rare fields; the general codec must decode it. Raises `InvalidName`,
    `InvalidPayload`, `Malformed`."""
    if proto.HasField("attributes") or proto.security_token or proto.idempotency_key:
        return None
    content_type, attributes = proto.content_type, None
    if content_type:
        body, content_type = typed_payload(proto.payload, content_type)
        attributes = with_media_type(None, content_type, proto.content_type)
    else:
        body, content_type = proto.payload, BINARY
    req_id: int | None = proto.req_id
    if not req_id and not proto.HasField("req_id"):
        req_id = None
    event = proto.event
    if event:
        check_event_name(event)
    producer = _producer(proto.producer) if proto.HasField("producer") else None
    if producer is None and attributes is None and not proto.HasField("extra"):
        return PublishItem(
            proto.channel, event, body, content_type, False, False, False, False, req_id
        )
    extra = proto.extra
    if extra.push_options:
        return None
    return PublishItem(
        proto.channel,
        event,
        body,
        content_type,
        extra.store,
        extra.push,
        extra.retain,
        extra.transient,
        req_id,
        producer,
        attributes=attributes,
    )


def _producer(proto: pb.ProducerInfo) -> Producer:
    where = "Publish: `producer"
    sequence = parse_serial(proto.sequence, f"{where}.sequence`")
    fence = parse_serial(proto.fence, f"{where}.fence`") if proto.HasField("fence") else 0
    return Producer(proto.id, sequence, fence)
