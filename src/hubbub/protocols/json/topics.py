"""Topics in JSON, as the hub reads and writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import Raw

from hubbub.domain import notices, requests
from hubbub.domain.requests import Request
from hubbub.domain.topics import (
    DEFAULT_SUBSCRIPTION,
    Article,
    SubscriptionInfo,
    SubscriptionOptions,
)
from hubbub.protocols.json import topic_shapes as shapes
from hubbub.protocols.json.shapes import Shape, write_message
from hubbub.protocols.topic_checks import check_ack, check_get, parse_start

_subscribe = msgspec.json.Decoder(shapes.TopicSubscribeRequest).decode
_unsubscribe = msgspec.json.Decoder(shapes.TopicUnsubscribeRequest).decode
_get = msgspec.json.Decoder(shapes.TopicGetRequest).decode
_ack = msgspec.json.Decoder(shapes.TopicAckRequest).decode
_open = msgspec.json.Decoder(shapes.ProducerOpenRequest).decode
_list = msgspec.json.Decoder(shapes.TopicListRequest).decode


def _read_subscribe(payload: Raw) -> Request:
    shape = _subscribe(payload)
    start = "new" if shape.start is None else str(shape.start)
    return requests.TopicSubscribe(
        shape.topic,
        _name(shape.name),
        None if shape.options is None else read_options(shape.options),
        parse_start(start, "TopicSubscribe: `$.payload.start`"),
        shape.req_id or 0,
    )


def read_options(shape: shapes.TopicOptions) -> SubscriptionOptions:
    given = {name: getattr(shape, name) for name in shape.__struct_fields__}
    return SubscriptionOptions(
        **{name: value for name, value in given.items() if value is not None}
    )


def _read_unsubscribe(payload: Raw) -> Request:
    shape = _unsubscribe(payload)
    return requests.TopicUnsubscribe(shape.topic, _name(shape.name), shape.req_id or 0)


def _read_get(payload: Raw) -> Request:
    shape = _get(payload)
    return check_get(
        requests.TopicGet(
            shape.topic,
            _name(shape.name),
            1 if shape.limit is None else shape.limit,
            shape.wait or 0.0,
            shape.consumer or "",
            None if shape.ack_up_to is None else int(shape.ack_up_to),
            shape.req_id or 0,
            int(shape.after or 0),
        )
    )


def _read_ack(payload: Raw) -> Request:
    shape = _ack(payload)
    return check_ack(
        requests.TopicAck(
            shape.topic,
            _name(shape.name),
            tuple(int(serial) for serial in shape.serials or ()),
            None if shape.up_to is None else int(shape.up_to),
            shape.consumer or "",
            bool(shape.give_back),
            shape.req_id or 0,
        )
    )


def _read_open(payload: Raw) -> Request:
    shape = _open(payload)
    return requests.ProducerOpen(shape.topic, shape.producer, shape.req_id or 0)


def _read_list(payload: Raw) -> Request:
    return requests.TopicList(_list(payload).req_id or 0)


def _name(name: str | None) -> str:
    return DEFAULT_SUBSCRIPTION if name is None else name


REQUEST_READERS: dict[str, Callable[[Raw], Request]] = {
    "TopicSubscribe": _read_subscribe,
    "TopicUnsubscribe": _read_unsubscribe,
    "TopicGet": _read_get,
    "TopicAck": _read_ack,
    "ProducerOpen": _read_open,
    "TopicList": _read_list,
}


def state_shape(info: SubscriptionInfo, answer: str | None = None) -> shapes.TopicState:
    return shapes.TopicState(
        topic=info.key.channel,
        name=info.key.name,
        answer=answer,
        options=options_shape(info.options),
        epoch=info.epoch,
        floor=str(info.floor),
        head=str(info.head),
        lag=info.lag,
        handed_out=info.handed_out,
        created_at=info.created_at,
        redeliveries=info.redeliveries,
        dead_letters=info.dead_letters,
        missed=info.missed,
        new=info.new,
    )


def options_shape(options: SubscriptionOptions) -> shapes.TopicOptions:
    return shapes.TopicOptions(
        options.shared,
        options.lease_seconds,
        options.max_unacknowledged,
        options.max_deliveries,
        options.dead_letters,
    )


def articles_shape(articles: Iterable[Article]) -> shapes.TopicArticles:
    messages = tuple(
        write_message(
            shapes.TopicArticle,
            each.message,
            deliveries=each.deliveries,
            redelivered=each.redelivered,
        )
        for each in articles
    )
    return shapes.TopicArticles("TopicArticle" if messages else "EmptyTopic", messages)


def _subscribed(notice: notices.TopicSubscribed) -> Shape:
    shape = state_shape(notice.subscription, "SUBSCRIBED")
    shape.req_id = notice.req_id or None
    return shape


def _unsubscribed(notice: notices.TopicUnsubscribed) -> Shape:
    return shapes.TopicState(
        notice.topic, notice.name, "UNSUBSCRIBED", req_id=notice.req_id or None
    )


def _messages(notice: notices.TopicMessages) -> Shape:
    found = articles_shape(notice.messages)
    return shapes.TopicMessagesNotice(
        found.answer, notice.topic, notice.name, found.messages, None, notice.req_id or None
    )


def _each_messages(notice: notices.EachTopicMessages) -> Shape:
    topics = {topic: articles_shape(found) for topic, found in notice.topics.items()}
    return shapes.TopicMessagesNotice(name=notice.name, topics=topics, req_id=notice.req_id or None)


def _acked(notice: notices.TopicAcked) -> Shape:
    return shapes.TopicAckedNotice(
        "Ack", notice.topic, notice.name, str(notice.floor), notice.req_id or None
    )


def _opened(notice: notices.ProducerOpened) -> Shape:
    return shapes.ProducerOpenedNotice(
        notice.topic,
        notice.producer,
        str(notice.fence),
        str(notice.sequence),
        notice.req_id or None,
    )


def _subscriptions(notice: notices.TopicSubscriptions) -> Shape:
    return shapes.TopicSubscriptionsNotice(
        tuple(state_shape(each) for each in notice.subscriptions), notice.req_id or None
    )


NOTICE_WRITERS: dict[type, tuple[str, Callable[[Any], Shape]]] = {
    notices.TopicSubscribed: ("TopicSubscription", _subscribed),
    notices.TopicUnsubscribed: ("TopicSubscription", _unsubscribed),
    notices.TopicMessages: ("TopicMessages", _messages),
    notices.EachTopicMessages: ("TopicMessages", _each_messages),
    notices.TopicAcked: ("TopicAcked", _acked),
    notices.ProducerOpened: ("ProducerOpened", _opened),
    notices.TopicSubscriptions: ("TopicSubscriptions", _subscriptions),
}
