"""Topics over HTTP: put, get, acknowledge; durable subscriptions and producers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from hubbub.domain.envelope_headers import from_headers, security_token
from hubbub.domain.errors import GoingAway, Malformed
from hubbub.domain.names import check_name
from hubbub.domain.payloads import parse_payload
from hubbub.domain.requests import Producer, PublishItem, TopicGet
from hubbub.domain.topics import DEFAULT_SUBSCRIPTION, MAX_WAIT_SECONDS
from hubbub.engine.hub import Hub
from hubbub.engine.node import Node
from hubbub.gateways.calls import HubRequest, UnderWay, no_path, seconds_of, topic_key_of
from hubbub.gateways.credentials import require_identity
from hubbub.gateways.http import Request, Target
from hubbub.gateways.http_connection import Exchange
from hubbub.protocols.checks import check_event_name, check_get, parse_serial, parse_start
from hubbub.protocols.json import topics_http as bodies
from hubbub.tasks import TaskSet, awaited

_T = TypeVar("_T")


class TopicsApi:
    """Paths under /v1/hubs/{hub}/topics/ and /v1/hubs/{hub}/subscriptions."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._waiting = TaskSet(awaited)
        self._under_way = UnderWay()

    def handle(self, request: Request, target: Target, exchange: Exchange, hub: Hub) -> None:
        """Raises `NotFound` for paths that are not here."""
        call = HubRequest(hub, require_identity(request, target, hub, self._node), request, target)
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
                work = self._get(call, topic, name)
            case ("topics", topic, "subscriptions", name, "ack"):
                call.expect(b"POST")
                work = self._acknowledge(call, topic, name)
            case ("subscriptions",):
                call.expect(b"GET")
                work = self._list(call)
            case ("subscriptions", "get"):
                call.expect(b"POST")
                work = self._get_each(call)
            case _:
                raise no_path(request)
        exchange.run(_answer(exchange, work))

    def stop(self) -> None:
        """Whoever waits is sent away."""
        self._waiting.cancel()

    # -- producers ------------------------------------------------------------------------------

    async def _put(self, call: HubRequest, topic: str) -> bytes:
        query = call.query("event", "producer", "sequence", "fence")
        payload, content_type = parse_payload(
            call.request.body, call.request.header(b"content-type")
        )
        item = PublishItem(
            topic,
            check_event_name(query.get("event", "")),
            payload,
            content_type,
            store=True,
            producer=_producer(query),
            topic_key=topic_key_of(call.request),
            attributes=from_headers(call.request.headers),
            security_token=security_token(call.request.headers),
        )
        with self._guess(call):
            message_id, outcome = await self._under_way.finish(
                self._node.topics.put(call.hub, call.identity, item, "http")
            )
        return bodies.put_json(message_id, outcome.serial, outcome.duplicate)

    async def _open_producer(self, call: HubRequest, topic: str, producer: str) -> bytes:
        call.query()
        check_name(producer, "producer")
        with self._guess(call):
            opened = await self._under_way.finish(
                self._node.topics.open_producer(
                    call.hub, call.identity, topic, producer, topic_key_of(call.request)
                )
            )
        return bodies.producer_json(opened)

    def _guess(self, call: HubRequest) -> AbstractContextManager[None]:
        """Around what takes a topic's key, if there is one."""
        keyed = topic_key_of(call.request) is not None
        return self._node.throttle.guess(call.hub.name, call.request.address if keyed else "")

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
        start = parse_start(call.query("start").get("start", "new"), "start")
        options = bodies.read_options(call.request.body)
        info = await self._under_way.finish(
            self._node.topics.subscribe(call.hub, call.identity, topic, name, options, start)
        )
        return bodies.subscribed_json(info)

    async def _unsubscribe(self, call: HubRequest, topic: str, name: str) -> bytes:
        call.query()
        await self._under_way.finish(
            self._node.topics.unsubscribe(call.hub, call.identity, topic, name)
        )
        return b'{"answer":"UNSUBSCRIBED"}'

    async def _info(self, call: HubRequest, topic: str, name: str) -> bytes:
        call.query()
        return bodies.state_json(await self._node.topics.info(call.hub, call.identity, topic, name))

    async def _list(self, call: HubRequest) -> bytes:
        call.query()
        return bodies.states_json(await self._node.topics.list_own(call.hub, call.identity))

    # -- messages -------------------------------------------------------------------------------

    async def _get(self, call: HubRequest, topic: str, name: str) -> bytes:
        query = call.query("limit", "wait", "consumer", "ackUpTo", "after")
        check_name(name, "subscription")
        wanted = check_get(
            TopicGet(
                topic,
                name,
                _number(query, "limit", 1),
                seconds_of(query, "wait", MAX_WAIT_SECONDS),
                query.get("consumer", ""),
                _serial(query, "ackUpTo"),
                after=_serial(query, "after") or 0,
            ),
            "get",
        )
        articles = await self._wait_for(
            self._node.topics.get(
                call.hub,
                call.identity,
                topic,
                name,
                wanted.limit,
                wanted.wait_seconds,
                wanted.consumer,
                wanted.ack_up_to,
                wanted.after,
            )
        )
        self._node.tokens.check(call.identity, call.hub.name)  # it may have ended meanwhile
        return bodies.articles_json(articles)

    async def _get_each(self, call: HubRequest) -> bytes:
        name = call.query("name").get("name", DEFAULT_SUBSCRIPTION)
        check_name(name, "subscription")
        return bodies.each_json(
            await self._wait_for(self._node.topics.get_each(call.hub, call.identity, name))
        )

    async def _acknowledge(self, call: HubRequest, topic: str, name: str) -> bytes:
        call.query()
        check_name(name, "subscription")
        done = bodies.read_acknowledgement(call.request.body, topic, name)
        floor = await self._under_way.finish(
            self._node.topics.acknowledge(
                call.hub,
                call.identity,
                topic,
                name,
                done.serials,
                done.up_to,
                done.consumer,
                done.give_back,
            )
        )
        return b'{"answer":"Ack","floor":"%d"}' % floor

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


async def _answer(exchange: Exchange, work: Awaitable[bytes]) -> None:
    exchange.answer_json(await work)


def _producer(query: dict[str, str]) -> Producer | None:
    if "producer" not in query:
        for name in ("sequence", "fence"):
            if name in query:
                raise Malformed(f"{name!r} needs a 'producer' beside it")
        return None
    sequence = _serial(query, "sequence")
    if sequence is None:
        raise Malformed("'producer' needs a 'sequence' beside it; the first put is 1")
    fence = _serial(query, "fence") or 0
    return Producer(query["producer"], sequence, fence)


def _serial(query: dict[str, str], name: str) -> int | None:
    return parse_serial(query[name], name) if name in query else None


def _number(query: dict[str, str], name: str, default: int) -> int:
    text = query.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise Malformed(f"{name}={text[:20]!r} is not a whole number, like 10")
    return int(text)
