"""The messages of spec/hubbub.proto about topics as they look in JSON; see `shapes`."""

from __future__ import annotations

from hubbub.protocols.json.shapes import Int32, Int64, MessageShape, Serial, Shape


class TopicOptions(Shape):
    shared: bool | None = None
    lease_seconds: float | None = None
    max_unacknowledged: Int64 | None = None
    max_deliveries: Int64 | None = None
    dead_letters: str | None = None


class TopicSubscribeRequest(Shape):
    topic: str
    name: str | None = None
    options: TopicOptions | None = None
    start: str | Int64 | None = None
    req_id: Int64 | None = None


class TopicUnsubscribeRequest(Shape):
    topic: str
    name: str | None = None
    req_id: Int64 | None = None


class TopicGetRequest(Shape):
    topic: str | None = None
    name: str | None = None
    limit: Int32 | None = None
    wait: float | None = None
    consumer: str | None = None
    ack_up_to: Serial | None = None
    req_id: Int64 | None = None
    after: Serial | None = None


class TopicAckRequest(Shape):
    topic: str
    name: str | None = None
    serials: tuple[Serial, ...] | None = None
    up_to: Serial | None = None
    consumer: str | None = None
    give_back: bool | None = None
    req_id: Int64 | None = None


class ProducerOpenRequest(Shape):
    topic: str
    producer: str
    req_id: Int64 | None = None


class TopicListRequest(Shape):
    req_id: Int64 | None = None


class TopicState(Shape):
    """Without a state where the subscription is gone."""

    topic: str
    name: str
    answer: str | None = None
    options: TopicOptions | None = None
    epoch: str | None = None
    floor: Serial | None = None
    head: Serial | None = None
    lag: Int64 | None = None
    handed_out: Int64 | None = None
    created_at: Int64 | None = None
    redeliveries: Int64 | None = None
    dead_letters: Int64 | None = None
    missed: Int64 | None = None
    new: bool = False
    req_id: Int64 | None = None


class TopicArticle(MessageShape, kw_only=True):
    deliveries: Int64
    redelivered: bool


class TopicArticles(Shape):
    answer: str
    messages: tuple[TopicArticle, ...]


class TopicMessagesNotice(Shape):
    """Either of the two: a topic with its answer and messages, or those of each."""

    answer: str | None = None
    topic: str | None = None
    name: str | None = None
    messages: tuple[TopicArticle, ...] | None = None
    topics: dict[str, TopicArticles] | None = None
    req_id: Int64 | None = None


class TopicAckedNotice(Shape):
    answer: str
    topic: str
    name: str
    floor: Serial
    req_id: Int64 | None = None


class ProducerOpenedNotice(Shape):
    topic: str
    producer: str
    fence: Serial
    sequence: Serial
    req_id: Int64 | None = None


class TopicSubscriptionsNotice(Shape):
    subscriptions: tuple[TopicState, ...]
    req_id: Int64 | None = None
