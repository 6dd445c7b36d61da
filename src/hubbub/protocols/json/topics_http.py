"""The JSON bodies of topics over HTTP: the socket's shapes, without the envelope."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from hubbub.domain.payloads import read_json
from hubbub.domain.requests import TopicAck
from hubbub.domain.topics import Article, ProducerState, SubscriptionInfo, SubscriptionOptions
from hubbub.protocols.json import topics as json_topics
from hubbub.protocols.json.shapes import Serial
from hubbub.protocols.topic_checks import check_ack

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


def state_json(info: SubscriptionInfo, answer: str | None = None) -> bytes:
    return _encode(json_topics.state_shape(info, answer))


def states_json(infos: Iterable[SubscriptionInfo]) -> bytes:
    return _encode({"subscriptions": [json_topics.state_shape(info) for info in infos]})


def articles_json(articles: Iterable[Article]) -> bytes:
    return _encode(json_topics.articles_shape(articles))


def each_json(topics: Mapping[str, Iterable[Article]]) -> bytes:
    shapes = {topic: json_topics.articles_shape(found) for topic, found in topics.items()}
    return _encode({"topics": shapes})
