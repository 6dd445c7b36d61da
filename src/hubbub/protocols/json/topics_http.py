"""The JSON bodies of topics over HTTP: the socket's structures, without the envelope."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from hubbub.domain.names import MAX_NAME_CHARS
from hubbub.domain.notices import (
    EachTopicMessages,
    ProducerOpened,
)
from hubbub.domain.payloads import read_json
from hubbub.domain.requests import TopicAck
from hubbub.domain.topics import SubscriptionInfo, SubscriptionOptions
from hubbub.protocols import hubbub_pb2 as pb
from hubbub.protocols.checks import MAX_ITEMS, check_ack
from hubbub.protocols.json.events import struct_json
from hubbub.protocols.json.fast import articles_json
from hubbub.protocols.json.structs import Serial
from hubbub.protocols.mapping import descriptor

_encode = msgspec.json.Encoder().encode


Consumer = Annotated[
    str,
    Meta(max_length=MAX_NAME_CHARS, description="Tells those that share a subscription apart."),
]


class Acknowledgement(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Either `serials` or `upTo` is given."""

    serials: (
        Annotated[tuple[Serial, ...], Meta(extra_json_schema={"maxItems": MAX_ITEMS})] | None
    ) = None
    up_to: Serial | None = None
    consumer: Consumer = ""
    give_back: Annotated[bool, Meta(description="Not done: hand them out again at once.")] = False


_options = msgspec.json.Decoder(SubscriptionOptions)
_acknowledgement = msgspec.json.Decoder(Acknowledgement)


def read_options(body: bytes) -> SubscriptionOptions | None:
    """Returns None if no options are given. Raises `Malformed`."""
    if not body:
        return None
    return read_json(_options, body, "the options of a subscription")


def read_acknowledgement(body: bytes, topic: str, name: str) -> TopicAck:
    """Raises `Malformed`, `TooLarge`."""
    said = read_json(_acknowledgement, body, "an acknowledgement")
    return check_ack(
        TopicAck(
            topic,
            name,
            tuple(int(serial) for serial in said.serials or ()),
            None if said.up_to is None else int(said.up_to),
            said.consumer,
            said.give_back,
        ),
        "ack",
    )


def put_json(message_id: str | None, serial: int, duplicate: bool) -> bytes:
    """A repeated put whose message was deleted has neither id nor serial."""
    place = b""
    if message_id and serial:
        place = b'"msgID":%b,"channelSerial":"%d",' % (_encode(message_id), serial)
    known = b"true" if duplicate else b"false"
    return b'{"answer":"PutReply",%b"duplicate":%b}' % (place, known)


def producer_json(opened: ProducerOpened) -> bytes:
    return b'{"fence":"%d","sequence":"%d"}' % (opened.fence, opened.sequence)


def state_json(info: SubscriptionInfo) -> bytes:
    return struct_json(info, descriptor(pb.TopicState))


def each_json(found: EachTopicMessages) -> bytes:
    each = {topic: msgspec.Raw(articles_json(got)) for topic, got in found.topics.items()}
    return _encode({"topics": each})
