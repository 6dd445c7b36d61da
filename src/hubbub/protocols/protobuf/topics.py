"""Topics in protobuf, as the hub reads and writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from hubbub.domain import notices, requests
from hubbub.domain.requests import Request
from hubbub.domain.topics import (
    DEFAULT_SUBSCRIPTION,
    Article,
    SubscriptionInfo,
    SubscriptionOptions,
)
from hubbub.protocols import hubbub_pb2 as pb
from hubbub.protocols.envelopes import check_batch, parse_serial
from hubbub.protocols.topic_checks import check_ack, check_get, parse_start


def _read_subscribe(proto: pb.TopicSubscribeRequest) -> Request:
    return requests.TopicSubscribe(
        proto.topic,
        proto.name or DEFAULT_SUBSCRIPTION,
        read_options(proto.options) if proto.HasField("options") else None,
        parse_start(proto.start or "new", "TopicSubscribe: `start`"),
        proto.req_id,
    )


def read_options(proto: pb.TopicOptions) -> SubscriptionOptions:
    return SubscriptionOptions(**{field.name: value for field, value in proto.ListFields()})


def _read_unsubscribe(proto: pb.TopicUnsubscribeRequest) -> Request:
    return requests.TopicUnsubscribe(proto.topic, proto.name or DEFAULT_SUBSCRIPTION, proto.req_id)


def _read_get(proto: pb.TopicGetRequest) -> Request:
    ack_up_to = None
    if proto.HasField("ack_up_to"):
        ack_up_to = parse_serial(proto.ack_up_to, "TopicGet: `ack_up_to`")
    return check_get(
        requests.TopicGet(
            proto.topic or None,
            proto.name or DEFAULT_SUBSCRIPTION,
            proto.limit if proto.HasField("limit") else 1,
            proto.wait,
            proto.consumer,
            ack_up_to,
            proto.req_id,
            parse_serial(proto.after, "TopicGet: `after`") if proto.HasField("after") else 0,
        )
    )


def _read_ack(proto: pb.TopicAckRequest) -> Request:
    check_batch("TopicAck", len(proto.serials))
    up_to = parse_serial(proto.up_to, "TopicAck: `up_to`") if proto.HasField("up_to") else None
    return check_ack(
        requests.TopicAck(
            proto.topic,
            proto.name or DEFAULT_SUBSCRIPTION,
            tuple(
                parse_serial(serial, f"TopicAck: `serials[{index}]`")
                for index, serial in enumerate(proto.serials)
            ),
            up_to,
            proto.consumer,
            proto.give_back,
            proto.req_id,
        )
    )


def _read_open(proto: pb.ProducerOpenRequest) -> Request:
    return requests.ProducerOpen(proto.topic, proto.producer, proto.req_id)


def _read_list(proto: pb.TopicListRequest) -> Request:
    return requests.TopicList(proto.req_id)


REQUEST_READERS: dict[int, tuple[Callable[[bytes], Any], Callable[[Any], Request]]] = {
    pb.EventType.TopicSubscribe: (pb.TopicSubscribeRequest.FromString, _read_subscribe),
    pb.EventType.TopicUnsubscribe: (pb.TopicUnsubscribeRequest.FromString, _read_unsubscribe),
    pb.EventType.TopicGet: (pb.TopicGetRequest.FromString, _read_get),
    pb.EventType.TopicAck: (pb.TopicAckRequest.FromString, _read_ack),
    pb.EventType.ProducerOpen: (pb.ProducerOpenRequest.FromString, _read_open),
    pb.EventType.TopicList: (pb.TopicListRequest.FromString, _read_list),
}


def _state(info: SubscriptionInfo, answer: str = "", req_id: int = 0) -> pb.TopicState:
    return pb.TopicState(
        req_id=req_id,
        answer=answer,
        topic=info.key.channel,
        name=info.key.name,
        options=write_options(info.options),
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


def write_options(options: SubscriptionOptions) -> pb.TopicOptions:
    return pb.TopicOptions(
        shared=options.shared,
        lease_seconds=options.lease_seconds,
        max_unacknowledged=options.max_unacknowledged,
        max_deliveries=options.max_deliveries,
        dead_letters=options.dead_letters,
    )


def _answer(articles: Iterable[Article]) -> str:
    return "TopicArticle" if articles else "EmptyTopic"


def _articles(articles: Iterable[Article]) -> list[pb.TopicArticle]:
    return [_article(each) for each in articles]


def _article(article: Article) -> pb.TopicArticle:
    message = article.message
    return pb.TopicArticle(
        channel=message.channel,
        event=message.event,
        payload=message.payload,
        msg_id=message.id,
        timestamp=message.published_at,
        channel_serial=str(message.serial) if message.serial else None,
        content_type=message.content_type,
        publisher=message.publisher or "",
        deliveries=article.deliveries,
        redelivered=article.redelivered,
    )


def _subscribed(notice: notices.TopicSubscribed) -> bytes:
    return _state(notice.subscription, "SUBSCRIBED", notice.req_id).SerializeToString()


def _unsubscribed(notice: notices.TopicUnsubscribed) -> bytes:
    return pb.TopicState(
        req_id=notice.req_id, answer="UNSUBSCRIBED", topic=notice.topic, name=notice.name
    ).SerializeToString()


def _messages(notice: notices.TopicMessages) -> bytes:
    return pb.TopicMessagesNotice(
        req_id=notice.req_id,
        answer=_answer(notice.messages),
        topic=notice.topic,
        name=notice.name,
        messages=_articles(notice.messages),
    ).SerializeToString()


def _each_messages(notice: notices.EachTopicMessages) -> bytes:
    topics = {
        topic: pb.TopicArticles(answer=_answer(found), messages=_articles(found))
        for topic, found in notice.topics.items()
    }
    return pb.TopicMessagesNotice(
        req_id=notice.req_id, name=notice.name, topics=topics
    ).SerializeToString()


def _acked(notice: notices.TopicAcked) -> bytes:
    return pb.TopicAckedNotice(
        req_id=notice.req_id,
        answer="Ack",
        topic=notice.topic,
        name=notice.name,
        floor=str(notice.floor),
    ).SerializeToString()


def _opened(notice: notices.ProducerOpened) -> bytes:
    return pb.ProducerOpenedNotice(
        req_id=notice.req_id,
        topic=notice.topic,
        producer=notice.producer,
        fence=str(notice.fence),
        sequence=str(notice.sequence),
    ).SerializeToString()


def _subscriptions(notice: notices.TopicSubscriptions) -> bytes:
    return pb.TopicSubscriptionsNotice(
        req_id=notice.req_id, subscriptions=[_state(each) for each in notice.subscriptions]
    ).SerializeToString()


NOTICE_WRITERS: dict[type, tuple[int, Callable[[Any], bytes]]] = {
    notices.TopicSubscribed: (pb.EventType.TopicSubscription, _subscribed),
    notices.TopicUnsubscribed: (pb.EventType.TopicSubscription, _unsubscribed),
    notices.TopicMessages: (pb.EventType.TopicMessages, _messages),
    notices.EachTopicMessages: (pb.EventType.TopicMessages, _each_messages),
    notices.TopicAcked: (pb.EventType.TopicAcked, _acked),
    notices.ProducerOpened: (pb.EventType.ProducerOpened, _opened),
    notices.TopicSubscriptions: (pb.EventType.TopicSubscriptions, _subscriptions),
}
