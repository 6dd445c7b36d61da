"""Topics over HTTP: put, get, acknowledge; durable subscriptions and producers."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from hubbub.domain.envelope_headers import (
    SECURITY_HEADER,
    check_header_names,
    security_token,
)
from hubbub.domain.errors import GoingAway, Malformed
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
from hubbub.gateways.calls import (
    TOPIC_KEY_HEADER,
    Digits,
    EventName,
    HubRequest,
    NoQuery,
    no_path,
    topic_key_of,
)
from hubbub.gateways.credentials import require_identity
from hubbub.gateways.exchange import Exchange
from hubbub.gateways.http import Prepared, Request, Target
from hubbub.protocols.checks import check_event_name, parse_start
from hubbub.protocols.json import topics_http as bodies
from hubbub.protocols.json.events import notice_json
from hubbub.protocols.json.fast import articles_json
from hubbub.tasks import TaskSet, awaited

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


class PreparedGet(Prepared, eq=False):
    wanted: TopicGet


class TopicsApi:
    """Paths under /v1/hubs/{hub}/topics/ and /v1/hubs/{hub}/subscriptions."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._waiting = TaskSet(awaited)

    def handle(self, request: Request, target: Target, exchange: Exchange, hub: Hub) -> None:
        """Raises `NotFound` for paths that are not here."""
        call = HubRequest(hub, require_identity(request, target, hub, self._node), request, target)
        run = exchange.complete
        match target.segments[3:]:
            case ("topics", topic, "messages"):
                call.expect(b"POST")
                work = self._put(call, topic)
            case ("topics", topic, "producers", producer):
                call.expect(b"POST")
                work = self._open_producer(call, topic, producer)
            case ("topics", topic, "subscriptions", name):
                work = self._subscription(call, topic, name)
            case ("topics", topic, "subscriptions", name, "get"):
                call.expect(b"POST")
                wanted = _wanted(call.query(GetQuery), topic, name)
                if b"origin" not in request.headers:
                    request.head.memo = PreparedGet(hub.name, wanted)
                work, run = self.get(hub, call.identity, wanted), exchange.run
            case ("topics", topic, "subscriptions", name, "ack"):
                call.expect(b"POST")
                work = self._acknowledge(call, topic, name)
            case ("subscriptions",):
                call.expect(b"GET")
                work, run = self._list(call), exchange.run
            case ("subscriptions", "get"):
                call.expect(b"POST")
                work, run = self._get_each(call), exchange.run
            case _:
                raise no_path(request)
        run(work)

    def stop(self) -> None:
        """Whoever waits is sent away."""
        self._waiting.cancel()

    # -- producers ------------------------------------------------------------------------------

    async def _put(self, call: HubRequest, topic: str) -> bytes:
        query = call.query(PutQuery)
        check_header_names(
            call.request.headers,
            (SECURITY_HEADER, TOPIC_KEY_HEADER),
            PutQuery.__struct_encode_fields__,
        )
        given = call.request.header(b"content-type")
        payload, content_type = parse_payload(call.request.body, given)
        item = PublishItem(
            topic,
            check_event_name(query.event),
            payload,
            content_type,
            store=True,
            producer=_producer(query),
            topic_key=topic_key_of(call.request),
            attributes=as_spelt(self._node.envelope_of(call.request.headers), given),
            security_token=security_token(call.request.headers),
        )
        message_id, outcome = await self._guess(
            call, self._node.topics.put(call.hub, call.identity, item, "http")
        )
        return bodies.put_json(message_id, outcome.serial, outcome.duplicate)

    async def _open_producer(self, call: HubRequest, topic: str, producer: str) -> bytes:
        call.query(NoQuery)
        wanted, key = ProducerOpen(topic, producer), topic_key_of(call.request)
        work = self._node.topics.open_producer(call.hub, call.identity, wanted, key)
        return bodies.producer_json(await self._guess(call, work))

    async def _guess(self, call: HubRequest, work: Coroutine[Any, Any, _T]) -> _T:
        """What takes a topic's key, which may be wrong."""
        if topic_key_of(call.request) is None:
            return await work
        with self._node.throttle.guess(call.hub.name, call.request.address):
            return await work

    # -- subscriptions --------------------------------------------------------------------------

    def _subscription(self, call: HubRequest, topic: str, name: str) -> Coroutine[Any, Any, bytes]:
        check_name(name, "subscription")
        if call.request.method == b"PUT":
            return self._subscribe(call, topic, name)
        if call.request.method == b"DELETE":
            return self._unsubscribe(call, topic, name)
        call.expect(b"GET", b"PUT", b"DELETE")
        return self._info(call, topic, name)

    async def _subscribe(self, call: HubRequest, topic: str, name: str) -> bytes:
        start = parse_start(call.query(StartQuery).start, "start")
        wanted = TopicSubscribe(topic, name, bodies.read_options(call.request.body), start)
        return notice_json(await self._node.topics.subscribe(call.hub, call.identity, wanted))[1]

    async def _unsubscribe(self, call: HubRequest, topic: str, name: str) -> bytes:
        call.query(NoQuery)
        leaving = TopicUnsubscribe(topic, name)
        await self._node.topics.unsubscribe(call.hub, call.identity, leaving)
        return b'{"answer":"UNSUBSCRIBED"}'

    async def _info(self, call: HubRequest, topic: str, name: str) -> bytes:
        call.query(NoQuery)
        return bodies.state_json(await self._node.topics.info(call.hub, call.identity, topic, name))

    async def _list(self, call: HubRequest) -> bytes:
        call.query(NoQuery)
        return notice_json(await self._node.topics.list_own(call.hub, call.identity))[1]

    # -- messages -------------------------------------------------------------------------------

    async def get(self, hub: Hub, identity: Identity, wanted: TopicGet) -> bytes:
        work = self._node.topics.get(hub, identity, wanted, "http")
        if not wanted.wait_seconds:
            return articles_json(await work)
        found = await self._wait_for(work)
        self._node.tokens.check(identity, hub.name)  # it may have ended meanwhile
        return articles_json(found)

    async def _get_each(self, call: HubRequest) -> bytes:
        name = check_name(call.query(NameQuery).name, "subscription")
        wanted = self._node.topics.get_each(call.hub, call.identity, name, technology="http")
        found = await self._wait_for(wanted)
        return bodies.each_json(found)

    async def _acknowledge(self, call: HubRequest, topic: str, name: str) -> bytes:
        call.query(NoQuery)
        check_name(name, "subscription")
        done = bodies.read_acknowledgement(call.request.body, topic, name)
        acked = await self._node.topics.acknowledge(call.hub, call.identity, done)
        return b'{"answer":"Ack","floor":"%d"}' % acked.floor

    # -- waiting --------------------------------------------------------------------------------

    async def _wait_for(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Given up when the client goes away, or this server does."""
        try:
            return await self._waiting.start(work)
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise
            raise GoingAway("the server is shutting down; ask again") from None


def _wanted(query: GetQuery, topic: str, name: str) -> TopicGet:
    return TopicGet(
        topic,
        name,
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
