"""The client's side of topics in JSON: requests onto the wire, notices from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from hubbub.domain import notices, requests
from hubbub.domain.notices import Notice
from hubbub.domain.topics import Article, SubscriptionInfo, SubscriptionKey, SubscriptionOptions
from hubbub.protocols.json import topic_shapes as shapes
from hubbub.protocols.json.shapes import Shape, read_message
from hubbub.protocols.json.topics import options_shape, read_options


def _subscribe(request: requests.TopicSubscribe) -> Shape:
    options = None if request.options is None else options_shape(request.options)
    start = None if request.start == "new" else str(request.start)
    return shapes.TopicSubscribeRequest(
        request.topic, request.name, options, start, request.req_id or None
    )


def _unsubscribe(request: requests.TopicUnsubscribe) -> Shape:
    return shapes.TopicUnsubscribeRequest(request.topic, request.name, request.req_id or None)


def _get(request: requests.TopicGet) -> Shape:
    return shapes.TopicGetRequest(
        request.topic,
        request.name,
        None if request.limit == 1 else request.limit,
        request.wait_seconds or None,
        request.consumer or None,
        None if request.ack_up_to is None else str(request.ack_up_to),
        request.req_id or None,
        str(request.after) if request.after else None,
    )


def _ack(request: requests.TopicAck) -> Shape:
    return shapes.TopicAckRequest(
        request.topic,
        request.name,
        tuple(map(str, request.serials)) or None,
        None if request.up_to is None else str(request.up_to),
        request.consumer or None,
        request.give_back or None,
        request.req_id or None,
    )


def _open(request: requests.ProducerOpen) -> Shape:
    return shapes.ProducerOpenRequest(request.topic, request.producer, request.req_id or None)


def _list(request: requests.TopicList) -> Shape:
    return shapes.TopicListRequest(request.req_id or None)


REQUEST_WRITERS: dict[type, tuple[str, Callable[[Any], Shape]]] = {
    requests.TopicSubscribe: ("TopicSubscribe", _subscribe),
    requests.TopicUnsubscribe: ("TopicUnsubscribe", _unsubscribe),
    requests.TopicGet: ("TopicGet", _get),
    requests.TopicAck: ("TopicAck", _ack),
    requests.ProducerOpen: ("ProducerOpen", _open),
    requests.TopicList: ("TopicList", _list),
}


def _subscription(shape: shapes.TopicState) -> Notice:
    if shape.answer == "UNSUBSCRIBED":
        return notices.TopicUnsubscribed(shape.topic, shape.name, shape.req_id or 0)
    return notices.TopicSubscribed(_info(shape), shape.req_id or 0)


def _info(shape: shapes.TopicState) -> SubscriptionInfo:
    """The hub and the owner are not on the wire: it is the hub and the caller of the session."""
    return SubscriptionInfo(
        key=SubscriptionKey("", shape.topic, "", shape.name),
        options=SubscriptionOptions() if shape.options is None else read_options(shape.options),
        epoch=shape.epoch or "",
        floor=int(shape.floor or 0),
        head=int(shape.head or 0),
        lag=shape.lag or 0,
        handed_out=shape.handed_out or 0,
        created_at=shape.created_at or 0,
        redeliveries=shape.redeliveries or 0,
        dead_letters=shape.dead_letters or 0,
        missed=shape.missed or 0,
        new=shape.new,
    )


def _messages(shape: shapes.TopicMessagesNotice) -> Notice:
    if shape.topics is not None:
        topics = {topic: _articles(found.messages) for topic, found in shape.topics.items()}
        return notices.EachTopicMessages(shape.name or "", topics, shape.req_id or 0)
    return notices.TopicMessages(
        shape.topic or "", shape.name or "", _articles(shape.messages or ()), shape.req_id or 0
    )


def _articles(found: Iterable[shapes.TopicArticle]) -> tuple[Article, ...]:
    return tuple(Article(read_message(each), each.deliveries, each.redelivered) for each in found)


def _acked(shape: shapes.TopicAckedNotice) -> Notice:
    return notices.TopicAcked(shape.topic, shape.name, int(shape.floor), shape.req_id or 0)


def _opened(shape: shapes.ProducerOpenedNotice) -> Notice:
    return notices.ProducerOpened(
        shape.topic, shape.producer, int(shape.fence), int(shape.sequence), shape.req_id or 0
    )


def _subscriptions(shape: shapes.TopicSubscriptionsNotice) -> Notice:
    return notices.TopicSubscriptions(
        tuple(_info(each) for each in shape.subscriptions), shape.req_id or 0
    )


NOTICE_READERS: dict[str, tuple[type[Any], Callable[[Any], Notice]]] = {
    "TopicSubscription": (shapes.TopicState, _subscription),
    "TopicMessages": (shapes.TopicMessagesNotice, _messages),
    "TopicAcked": (shapes.TopicAckedNotice, _acked),
    "ProducerOpened": (shapes.ProducerOpenedNotice, _opened),
    "TopicSubscriptions": (shapes.TopicSubscriptionsNotice, _subscriptions),
}
