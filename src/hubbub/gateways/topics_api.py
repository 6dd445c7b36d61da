"""Topics over HTTP: put, get, acknowledge; durable subscriptions and producers."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from hubbub.domain.envelope_headers import (
    SECURITY_HEADER,
    check_header_names,
    security_token,
)
from hubbub.domain.errors import (
    InvalidAttribute,
    InvalidPayload,
    Malformed,
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
from hubbub.domain.fields import NAME_SCHEMA
from hubbub.domain.names import check_name
from hubbub.domain.payloads import as_spelt, parse_payload
from hubbub.domain.permissions import Identity
from hubbub.domain.requests import (
    Producer,
    ProducerOpen,
    PublishItem,
    TopicGet,
    TopicSubscribe,
    TopicUnsubscribe,
)
from hubbub.domain.topics import DEFAULT_SUBSCRIPTION, MAX_BATCH, MAX_WAIT_SECONDS
from hubbub.engine.hub import Hub
from hubbub.engine.node import Node
from hubbub.engine.topics.service import Topics
from hubbub.gateways.calls import (
    TOPIC_KEY_HEADER,
    Digits,
    Doors,
    EventName,
    HubRequest,
    NoQuery,
    topic_key_of,
)
from hubbub.gateways.http import PreparedRequest
from hubbub.gateways.public_shapes import (
    ENVELOPE_HEADERS,
    EachTopic,
    ProducerState,
    PutReply,
    TopicAcked,
    TopicArticles,
    TopicOptions,
    TopicState,
    TopicStates,
    TopicSubscribed,
    TopicUnsubscribed,
)
from hubbub.gateways.routes import Access, Routes
from hubbub.protocols.checks import check_event_name, parse_start
from hubbub.protocols.json import topics_http as bodies
from hubbub.protocols.json.events import notice_json
from hubbub.protocols.json.fast import articles_json

_T = TypeVar("_T")


class PutQuery(msgspec.Struct, frozen=True):
    event: EventName = ""
    producer: (
        Annotated[str, Meta(description="Who puts it.", extra_json_schema=NAME_SCHEMA)] | None
    ) = None
    sequence: (
        Annotated[
            Digits,
            Meta(description="As which of the producer's puts to this topic; the first is 1."),
        ]
        | None
    ) = None
    fence: Annotated[Digits, Meta(description="What opening the producer answered.")] | None = None


class StartQuery(msgspec.Struct, frozen=True):
    start: Annotated[
        str,
        Meta(
            description="`new` (what is put from now on), `first` (everything that is still "
            "there), or the serial behind which to begin. An existing one keeps its place.",
            extra_json_schema={"pattern": "^(new|first|[0-9]{1,18})$"},
        ),
    ] = "new"


class GetQuery(msgspec.Struct, frozen=True, rename="camel"):
    limit: Annotated[int, Meta(ge=1, le=MAX_BATCH, description="Messages at most.")] = 1
    wait: Annotated[
        float,
        Meta(ge=0, le=MAX_WAIT_SECONDS, description="Seconds to wait for a message, up to 60."),
    ] = 0.0
    consumer: bodies.Consumer = ""
    ack_up_to: (
        Annotated[Digits, Meta(description="Acknowledged first, in the same step.")] | None
    ) = None
    after: Annotated[Digits, Meta(description="Only what is behind this serial.")] | None = None


class NameQuery(msgspec.Struct, frozen=True):
    name: Annotated[
        str, Meta(description="The subscriptions' name.", extra_json_schema=NAME_SCHEMA)
    ] = DEFAULT_SUBSCRIPTION


class PreparedGet(PreparedRequest, eq=False):
    wanted: TopicGet


_TOPIC = "/topics/{topic}"
_SUBSCRIPTION = f"{_TOPIC}/subscriptions/{{subscription}}"
_READING = (TopicNotFound, NotSubscribed, NotPermitted, Unavailable)
_PUTTING = (
    TopicNotFound, NotPermitted, InvalidPayload, WrongChannelKind, SequenceGap, SequenceReused,
    ProducerFenced, QuotaExceeded, Unavailable,
)  # fmt: skip
TOPIC_API = Routes("/v1/hubs/{hub}", "Topics", Access.HUB, _READING)


# -- producers ------------------------------------------------------------------------------------


@TOPIC_API.serve(
    "POST", f"{_TOPIC}/messages", headers=ENVELOPE_HEADERS, body=Any, content_type="*/*",
    answers={200: PutReply}, errors=(*_PUTTING, InvalidAttribute),
)  # fmt: skip
async def put_message(node: Node, request: HubRequest[PutQuery]) -> bytes:
    """Put a message, which makes the topic if need be; the body is the payload. Answered when it
    is on disk."""
    query, sent = request.query, request.request
    check_header_names(
        sent.headers, (SECURITY_HEADER, TOPIC_KEY_HEADER), PutQuery.__struct_encode_fields__
    )
    given = sent.header(b"content-type")
    payload, content_type = parse_payload(sent.body, given)
    item = PublishItem(
        request.path["topic"],
        check_event_name(query.event),
        payload,
        content_type,
        store=True,
        producer=_producer(query),
        topic_key=topic_key_of(sent),
        attributes=as_spelt(node.envelope_of(sent.headers), given),
        security_token=security_token(sent.headers),
    )
    put = node.feature(Topics).put(request.hub, request.identity, item, "http")
    message_id, outcome = await _guess(node, request, put)
    return bodies.put_json(message_id, outcome.serial, outcome.duplicate)


@TOPIC_API.serve(
    "POST", f"{_TOPIC}/producers/{{producer}}", answers={200: ProducerState},
    errors=(TopicNotFound, NotPermitted, Unavailable),
)  # fmt: skip
async def open_producer(node: Node, request: HubRequest[NoQuery]) -> bytes:
    """Take a producer over: puts under an older fence are refused from now on."""
    wanted = ProducerOpen(request.path["topic"], request.path["producer"])
    key = topic_key_of(request.request)
    opened = node.feature(Topics).open_producer(request.hub, request.identity, wanted, key)
    return bodies.producer_json(await _guess(node, request, opened))


async def _guess(node: Node, request: HubRequest[Any], work: Coroutine[Any, Any, _T]) -> _T:
    """A context for checking a topic's key, which may be wrong."""
    if topic_key_of(request.request) is None:
        return await work
    with node.throttle.guess(request.hub.name, request.request.address):
        return await work


# -- subscriptions --------------------------------------------------------------------------------


@TOPIC_API.serve("GET", _SUBSCRIPTION, answers={200: TopicState})
async def read_subscription(node: Node, request: HubRequest[NoQuery]) -> bytes:
    """See where one's own subscription stands."""
    which = _subscription(request)
    return bodies.state_json(await node.feature(Topics).info(request.hub, request.identity, *which))


@TOPIC_API.serve(
    "PUT", _SUBSCRIPTION, body=TopicOptions, answers={200: TopicSubscribed},
    errors=(TopicNotFound, NotPermitted, QuotaExceeded, Unavailable),
)  # fmt: skip
async def subscribe_topic(node: Node, request: HubRequest[StartQuery]) -> bytes:
    """Create a durable subscription, or change the options of an existing one. The body may be
    empty."""
    which, start = _subscription(request), parse_start(request.query.start, "start")
    wanted = TopicSubscribe(*which, bodies.read_options(request.request.body), start)
    return notice_json(await node.feature(Topics).subscribe(request.hub, request.identity, wanted))[
        1
    ]


@TOPIC_API.serve("DELETE", _SUBSCRIPTION, answers={200: TopicUnsubscribed})
async def unsubscribe_topic(node: Node, request: HubRequest[NoQuery]) -> bytes:
    """Delete one's own durable subscription."""
    leaving = TopicUnsubscribe(*_subscription(request))
    await node.feature(Topics).unsubscribe(request.hub, request.identity, leaving)
    return b'{"answer":"UNSUBSCRIBED"}'


@TOPIC_API.serve("GET", "/subscriptions", answers={200: TopicStates}, errors=(Unavailable,))
async def list_subscriptions(node: Node, request: HubRequest[NoQuery]) -> bytes:
    """List one's own subscriptions."""
    return notice_json(await node.feature(Topics).list_own(request.hub, request.identity))[1]


def _subscription(request: HubRequest[Any]) -> tuple[str, str]:
    """The topic and the subscription's name. Raises `InvalidName`."""
    return request.path["topic"], check_name(request.path["subscription"], "subscription")


# -- messages -------------------------------------------------------------------------------------


@TOPIC_API.serve("POST", f"{_SUBSCRIPTION}/get", answers={200: TopicArticles}, gives_up=True)
def get_messages(node: Node, request: HubRequest[GetQuery]) -> Coroutine[Any, Any, bytes]:
    """Get the next messages that are not acknowledged; it may wait for one."""
    sent, wanted = request.request, _wanted(request)
    if b"origin" not in sent.headers:
        sent.head.memo = PreparedGet(request.hub.name, wanted)
    return get(node, request.doors, request.hub, request.identity, wanted)


async def get(node: Node, doors: Doors, hub: Hub, identity: Identity, wanted: TopicGet) -> bytes:
    work = node.feature(Topics).get(hub, identity, wanted, "http")
    if not wanted.wait_seconds:
        return articles_json(await work)
    found = await doors.wait_for(work)
    node.tokens.check(identity, hub.name)  # it may have ended meanwhile
    return articles_json(found)


@TOPIC_API.serve(
    "POST", "/subscriptions/get", answers={200: EachTopic}, errors=(Unavailable,), gives_up=True
)
async def get_from_each(node: Node, request: HubRequest[NameQuery]) -> bytes:
    """Get a message of each topic with a subscription of this name."""
    name = check_name(request.query.name, "subscription")
    work = node.feature(Topics).get_each(request.hub, request.identity, name, technology="http")
    return bodies.each_json(await request.doors.wait_for(work))


@TOPIC_API.serve(
    "POST", f"{_SUBSCRIPTION}/ack", body=bodies.Acknowledgement, answers={200: TopicAcked}
)
async def acknowledge_messages(node: Node, request: HubRequest[NoQuery]) -> bytes:
    """Say what is done; answered when that is on disk."""
    done = bodies.read_acknowledgement(request.request.body, *_subscription(request))
    acked = await node.feature(Topics).acknowledge(request.hub, request.identity, done)
    return b'{"answer":"Ack","floor":"%d"}' % acked.floor


def _wanted(request: HubRequest[GetQuery]) -> TopicGet:
    query = request.query
    return TopicGet(
        request.path["topic"],
        request.path["subscription"],
        query.limit,
        query.wait,
        query.consumer,
        None if query.ack_up_to is None else int(query.ack_up_to),
        after=int(query.after or 0),
    )


def _producer(query: PutQuery) -> Producer | None:
    if query.producer is None:
        for name in ("sequence", "fence"):
            if getattr(query, name) is not None:
                raise Malformed(f"{name!r} needs a 'producer' beside it")
        return None
    if query.sequence is None:
        raise Malformed("'producer' needs a 'sequence' beside it; the first put is 1")
    return Producer(query.producer, int(query.sequence), int(query.fence or 0))
