"""The JSON bodies of topics over HTTP: the socket's shapes, without the envelope."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from hubbub.domain.notices import TopicArticles, TopicSubscribed, TopicSubscriptions
from hubbub.domain.payloads import read_json
from hubbub.domain.requests import TopicAck
from hubbub.domain.topics import Article, ProducerState, SubscriptionInfo, SubscriptionOptions
from hubbub.protocols import hubbub_pb2 as pb
from hubbub.protocols.checks import check_ack
from hubbub.protocols.json.events import notice_json, struct_json
from hubbub.protocols.json.structs import Serial

_encode = msgspec.json.Encoder().encode


class _Acknowledgement(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    up_to: Serial | None = None
    serials: tuple[Serial, ...] | None = None
    consumer: str = ""
    give_back: bool = False


_options = msgspec.json.Decoder(SubscriptionOptions)
_acknowledgement = msgspec.json.Decoder(_Acknowledgement)


def read_options(body: bytes) -> SubscriptionOptions | None:
    """None: nothing was said about them. Raises `Malformed`."""
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
    """A put that was reclaimed has neither id nor serial any more."""
    reply: dict[str, object] = {"answer": "PutReply"}
    if message_id and serial:
        reply |= {"msgID": message_id, "channelSerial": str(serial)}
    return _encode(reply | {"duplicate": duplicate})


def producer_json(state: ProducerState) -> bytes:
    return b'{"fence":"%d","sequence":"%d"}' % (state.fence, state.sequence)


def state_json(info: SubscriptionInfo) -> bytes:
    return struct_json(info, pb.TopicState.DESCRIPTOR)


def subscribed_json(info: SubscriptionInfo) -> bytes:
    return notice_json(TopicSubscribed(info))[1]


def states_json(infos: Iterable[SubscriptionInfo]) -> bytes:
    return notice_json(TopicSubscriptions(tuple(infos)))[1]


def articles_json(articles: Iterable[Article]) -> bytes:
    return struct_json(TopicArticles(tuple(articles)), pb.TopicArticles.DESCRIPTOR)


def each_json(topics: Mapping[str, Iterable[Article]]) -> bytes:
    each = {topic: articles_json(found) for topic, found in topics.items()}
    return _encode({"topics": {topic: msgspec.Raw(text) for topic, text in each.items()}})
