"""The client's side of topics in protobuf: requests onto the wire, notices from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from google.protobuf.message import Message as Proto

from hubbub.domain import notices, requests
from hubbub.domain.notices import Notice
from hubbub.domain.topics import Article, SubscriptionInfo, SubscriptionKey
from hubbub.protocols import hubbub_pb2 as pb
from hubbub.protocols.protobuf.messages import read_message, read_serial
from hubbub.protocols.protobuf.topics import read_options, write_options


def _subscribe(request: requests.TopicSubscribe) -> Proto:
    return pb.TopicSubscribeRequest(
        req_id=request.req_id,
        topic=request.topic,
        name=request.name,
        options=None if request.options is None else write_options(request.options),
        start="" if request.start == "new" else str(request.start),
    )


def _unsubscribe(request: requests.TopicUnsubscribe) -> Proto:
    return pb.TopicUnsubscribeRequest(req_id=request.req_id, topic=request.topic, name=request.name)


def _get(request: requests.TopicGet) -> Proto:
    return pb.TopicGetRequest(
        req_id=request.req_id,
        topic=request.topic or "",
        name=request.name,
        limit=None if request.limit == 1 else request.limit,
        wait=request.wait_seconds,
        consumer=request.consumer,
        ack_up_to=None if request.ack_up_to is None else str(request.ack_up_to),
        after=str(request.after) if request.after else None,
    )


def _ack(request: requests.TopicAck) -> Proto:
    return pb.TopicAckRequest(
        req_id=request.req_id,
        topic=request.topic,
        name=request.name,
        serials=map(str, request.serials),
        up_to=None if request.up_to is None else str(request.up_to),
        consumer=request.consumer,
        give_back=request.give_back,
    )


def _open(request: requests.ProducerOpen) -> Proto:
    return pb.ProducerOpenRequest(
        req_id=request.req_id, topic=request.topic, producer=request.producer
    )


def _list(request: requests.TopicList) -> Proto:
    return pb.TopicListRequest(req_id=request.req_id)


REQUEST_WRITERS: dict[type, tuple[int, Callable[[Any], Proto]]] = {
    requests.TopicSubscribe: (pb.EventType.TopicSubscribe, _subscribe),
    requests.TopicUnsubscribe: (pb.EventType.TopicUnsubscribe, _unsubscribe),
    requests.TopicGet: (pb.EventType.TopicGet, _get),
    requests.TopicAck: (pb.EventType.TopicAck, _ack),
    requests.ProducerOpen: (pb.EventType.ProducerOpen, _open),
    requests.TopicList: (pb.EventType.TopicList, _list),
}


def _subscription(proto: pb.TopicState) -> Notice:
    if proto.answer == "UNSUBSCRIBED":
        return notices.TopicUnsubscribed(proto.topic, proto.name, proto.req_id)
    return notices.TopicSubscribed(_info(proto), proto.req_id)


def _info(proto: pb.TopicState) -> SubscriptionInfo:
    """The hub and the owner are not on the wire: it is the hub and the caller of the session."""
    return SubscriptionInfo(
        key=SubscriptionKey("", proto.topic, "", proto.name),
        options=read_options(proto.options),
        epoch=proto.epoch,
        floor=read_serial(proto.floor),
        head=read_serial(proto.head),
        lag=proto.lag,
        handed_out=proto.handed_out,
        created_at=proto.created_at,
        redeliveries=proto.redeliveries,
        dead_letters=proto.dead_letters,
        missed=proto.missed,
        new=proto.new,
    )


def _messages(proto: pb.TopicMessagesNotice) -> Notice:
    if proto.answer:
        return notices.TopicMessages(
            proto.topic, proto.name, _articles(proto.messages), proto.req_id
        )
    topics = {topic: _articles(found.messages) for topic, found in proto.topics.items()}
    return notices.EachTopicMessages(proto.name, topics, proto.req_id)


def _articles(found: Iterable[pb.TopicArticle]) -> tuple[Article, ...]:
    return tuple(Article(read_message(each), each.deliveries, each.redelivered) for each in found)


def _acked(proto: pb.TopicAckedNotice) -> Notice:
    return notices.TopicAcked(proto.topic, proto.name, read_serial(proto.floor), proto.req_id)


def _opened(proto: pb.ProducerOpenedNotice) -> Notice:
    return notices.ProducerOpened(
        proto.topic,
        proto.producer,
        read_serial(proto.fence),
        read_serial(proto.sequence),
        proto.req_id,
    )


def _subscriptions(proto: pb.TopicSubscriptionsNotice) -> Notice:
    return notices.TopicSubscriptions(
        tuple(_info(each) for each in proto.subscriptions), proto.req_id
    )


NOTICE_READERS: dict[int, tuple[Callable[[bytes], Any], Callable[[Any], Notice]]] = {
    pb.EventType.TopicSubscription: (pb.TopicState.FromString, _subscription),
    pb.EventType.TopicMessages: (pb.TopicMessagesNotice.FromString, _messages),
    pb.EventType.TopicAcked: (pb.TopicAckedNotice.FromString, _acked),
    pb.EventType.ProducerOpened: (pb.ProducerOpenedNotice.FromString, _opened),
    pb.EventType.TopicSubscriptions: (pb.TopicSubscriptionsNotice.FromString, _subscriptions),
}
