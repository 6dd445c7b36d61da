"""Routes of topics, for the description; `gateways.topics_api` serves them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from hubbub.domain.errors import (
    InvalidAttribute,
    InvalidPayload,
    NotPermitted,
    NotSubscribed,
    ProducerFenced,
    QuotaExceeded,
    SequenceGap,
    SequenceReused,
    TopicNotFound,
    Unavailable,
    WrongChannelKind,
)
from hubbub.domain.fields import Name
from hubbub.gateways.admin.public_shapes import ENVELOPE_HEADERS, Open, PublishedMessage, Serial
from hubbub.gateways.admin.routes import Access, Routes
from hubbub.gateways.admin.shapes import Shape
from hubbub.gateways.topics_api import GetQuery, NameQuery, PutQuery, StartQuery
from hubbub.protocols.json.topics_http import Acknowledgement

_TOPIC = "/topics/{topic}"
_SUBSCRIPTION = f"{_TOPIC}/subscriptions/{{subscription}}"
_READING = (TopicNotFound, NotSubscribed, NotPermitted, Unavailable)
_PUTTING = (
    TopicNotFound, NotPermitted, InvalidPayload, WrongChannelKind, SequenceGap, SequenceReused,
    ProducerFenced, QuotaExceeded, Unavailable,
)  # fmt: skip


class TopicOptions(Shape, frozen=True):
    """How a subscription hands its messages out."""

    shared: Annotated[bool, Meta(description="Each message goes to one of the consumers.")] = False
    lease_seconds: Annotated[
        float, Meta(ge=1, le=3600, description="Time to acknowledge, where it is shared.")
    ] = 30.0
    max_unacknowledged: Annotated[
        int, Meta(ge=1, le=10_000, description="Handed out at a time, where it is shared.")
    ] = 1000
    max_deliveries: Annotated[
        int, Meta(ge=0, le=1000, description="After so many it is a dead letter; 0: never.")
    ] = 0
    dead_letters: (
        Annotated[Name, Meta(description="Their channel; without it `<topic>.dead`.")] | None
    ) = None


class PutReply(Open, frozen=True):
    """`duplicate`: it was there already. Id and serial are missing once it is reclaimed."""

    answer: Literal["PutReply"]
    duplicate: bool
    msg_id: str | msgspec.UnsetType = msgspec.UNSET
    channel_serial: Serial | msgspec.UnsetType = msgspec.UNSET


class ProducerState(Open, frozen=True):
    """`sequence` is that of the last put that is on disk, "0" before the first."""

    fence: Serial
    sequence: Serial


class TopicState(Open, frozen=True):
    """`lag` counts what is not acknowledged, `handedOut` what of it a consumer holds, `missed` what
    a limit deleted before. `createdAt` is in ms since 1970."""

    topic: str
    name: str
    options: TopicOptions
    epoch: str
    floor: Serial
    head: Serial
    lag: int
    handed_out: int
    created_at: int
    redeliveries: int
    dead_letters: int
    missed: int
    new: bool | msgspec.UnsetType = msgspec.UNSET


class TopicSubscribed(TopicState, frozen=True, kw_only=True):
    """Where the subscription stands; `new`: it came into being by this request."""

    answer: Literal["SUBSCRIBED"]


class TopicUnsubscribed(Open, frozen=True):
    answer: Literal["UNSUBSCRIBED"]


class TopicArticle(PublishedMessage, frozen=True, kw_only=True):
    """`deliveries`: how often it was handed out, as far as is known. `redelivered`: it may have
    been handed out before."""

    deliveries: int
    redelivered: bool


class TopicArticles(Open, frozen=True):
    answer: Literal["TopicArticle", "EmptyTopic"]
    messages: list[TopicArticle]


class TopicAcked(Open, frozen=True):
    """Everything up to `floor` is done, and that is on disk."""

    answer: Literal["Ack"]
    floor: Serial


class EachTopic(Open, frozen=True):
    topics: dict[str, TopicArticles]


class TopicStates(Open, frozen=True):
    subscriptions: list[TopicState]


TOPIC_ROUTES = Routes("/v1/hubs/{hub}", "Topics", Access.HUB, _READING)
_describe = TOPIC_ROUTES.describe
_describe(
    "POST", f"{_TOPIC}/messages", "putMessage",
    "Put a message, which makes the topic if need be; the body is the payload. Answered when "
    "it is on disk", query=PutQuery, headers=ENVELOPE_HEADERS, body=Any, content_type="*/*",
    answers={200: PutReply}, errors=(*_PUTTING, InvalidAttribute),
)  # fmt: skip
_describe(
    "POST", f"{_TOPIC}/producers/{{producer}}", "openProducer",
    "Take a producer over: puts under an older fence are refused from now on",
    answers={200: ProducerState}, errors=(TopicNotFound, NotPermitted, Unavailable),
)  # fmt: skip
_describe(
    "GET", _SUBSCRIPTION, "readSubscription", "See where one's own subscription stands",
    answers={200: TopicState},
)  # fmt: skip
_describe(
    "PUT", _SUBSCRIPTION, "subscribeTopic",
    "Subscribe for good, or change the options; the body may be empty", query=StartQuery,
    body=TopicOptions, answers={200: TopicSubscribed},
    errors=(TopicNotFound, NotPermitted, QuotaExceeded, Unavailable),
)  # fmt: skip
_describe(
    "DELETE", _SUBSCRIPTION, "unsubscribeTopic", "Give one's own subscription up",
    answers={200: TopicUnsubscribed},
)  # fmt: skip
_describe(
    "POST", f"{_SUBSCRIPTION}/get", "getMessages",
    "Get the next messages that are not acknowledged; it may wait for one", query=GetQuery,
    answers={200: TopicArticles},
)  # fmt: skip
_describe(
    "POST", f"{_SUBSCRIPTION}/ack", "acknowledgeMessages",
    "Say what is done; answered when that is on disk", body=Acknowledgement,
    answers={200: TopicAcked},
)  # fmt: skip
_describe(
    "GET", "/subscriptions", "listSubscriptions", "List one's own subscriptions",
    answers={200: TopicStates}, errors=(Unavailable,),
)  # fmt: skip
_describe(
    "POST", "/subscriptions/get", "getFromEach",
    "Get a message of each topic with a subscription of this name", query=NameQuery,
    answers={200: EachTopic}, errors=(Unavailable,),
)  # fmt: skip
