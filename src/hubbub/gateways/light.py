"""Light-PubSubHubbub over HTTP: register, subscribe, unsubscribe and publish at `/hub/…`."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any, Literal

import msgspec

from hubbub.domain.envelope_headers import SECURITY_HEADER, check_header_names
from hubbub.domain.errors import NotSubscribed
from hubbub.domain.names import check_name
from hubbub.domain.payloads import untouched_payload, with_media_type
from hubbub.engine.node import Node
from hubbub.engine.webhooks.service import Webhooks
from hubbub.gateways.calls import (
    TOPIC_KEY_HEADER,
    HubCall,
    NoQuery,
    expect,
    flag,
    no_path,
    read_query,
    topic_key_of,
)
from hubbub.gateways.exchange import HttpExchange
from hubbub.gateways.http import TEXT_UTF8
from hubbub.protocols.light import (
    Unsubscription,
    read_registration,
    read_subscription,
    read_unsubscription,
)


class _KeyQuery(msgspec.Struct, frozen=True):
    key: str | None = None


class LightDoor:
    """Responds with text for people; with JSON to clients that accept it."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._webhooks = node.feature(Webhooks)

    def handle(self, call: HubCall, exchange: HttpExchange, path: tuple[str, ...]) -> None:
        """`path` is the part after `/hub`. Raises `NotFound` for unknown paths."""
        if path[-1:] == ("",):
            path = path[:-1]
        work: Coroutine[Any, Any, None]
        match path:
            case ("register",):
                expect(call.request, b"PUT")
                work = self._register(call, exchange)
            case ("subscribe",):
                expect(call.request, b"PUT")
                work = self._subscribe(call, exchange)
            case ("unsubscribe",):
                expect(call.request, b"DELETE")
                work = self._unsubscribe(call, exchange)
            case ("publish", *topic) if topic:
                expect(call.request, b"POST")
                work = self._publish(call, exchange, check_name("/".join(topic), "topic"))
            case _:
                raise no_path(call.request)
        exchange.complete(work)

    async def _register(self, call: HubCall, exchange: HttpExchange) -> None:
        with_key = flag(read_query(call.target, _KeyQuery).key, "key")
        wanted = read_registration(call.request.body, with_key)
        key = await self._webhooks.register_topic(call.hub, call.identity, wanted.topic, wanted.key)
        text = f"the topic {wanted.topic!r} is registered"
        shape: dict[str, object] = {"topic": wanted.topic}
        headers = ""
        if key is not None:
            text += (
                f"\nits key is {key}\n"
                f"send it as {TOPIC_KEY_HEADER} with each message; it is not shown again"
            )
            shape["key"] = key
            headers = f"{TOPIC_KEY_HEADER}: {key}\r\nCache-Control: no-store\r\n"
        _say(exchange, 201, text, shape, headers)

    async def _subscribe(self, call: HubCall, exchange: HttpExchange) -> None:
        read_query(call.target, NoQuery)
        wanted = read_subscription(call.request.body)
        webhook = await self._webhooks.subscribe(call.hub, call.identity, wanted)
        text = f"what is published to {wanted.channel!r} goes to {wanted.callback}"
        shape = {"id": webhook.id, "topic": wanted.channel, "callback": wanted.callback}
        _say(exchange, 200, text, shape)

    async def _unsubscribe(self, call: HubCall, exchange: HttpExchange) -> None:
        """Idempotent."""
        leaving = read_unsubscription(read_query(call.target, Unsubscription))
        topic, callback = leaving.channel, leaving.callback
        await self._webhooks.find_topic(call.hub, topic)
        text = f"nothing goes from {topic!r} to {callback} any more"
        removed = True
        try:
            await self._webhooks.unsubscribe(call.hub, call.identity, leaving)
        except NotSubscribed:
            text = f"{callback} was not subscribed to {topic!r}"
            removed = False
        shape = {"topic": topic, "callback": callback, "removed": removed}
        _say(exchange, 200, text, shape)

    async def _publish(self, call: HubCall, exchange: HttpExchange, topic: str) -> None:
        read_query(call.target, NoQuery)
        message_id, serial = await publish_body(self._node, call, topic, "light")
        text = f"published to {topic!r} as message {serial}, {message_id}"
        shape = {"topic": topic, "msgID": message_id, "channelSerial": str(serial)}
        _say(exchange, 200, text, shape)


async def publish_body(
    node: Node, call: HubCall, channel: str, technology: Literal["light", "websub"]
) -> tuple[str, int]:
    """Publishes the request's body; returns the message's id and serial. Raises the errors of
    `publish`."""
    request = call.request
    check_header_names(request.headers, (SECURITY_HEADER, TOPIC_KEY_HEADER))
    body, content_type = untouched_payload(request.body, request.header(b"content-type"))
    key = topic_key_of(request)
    with node.throttle.guess(call.hub.name, request.address if key is not None else ""):
        message_id, outcome = await node.feature(Webhooks).publish(
            call.hub,
            call.identity,
            channel,
            body,
            content_type,
            key,
            technology,
            with_media_type(
                node.envelope_of(request.headers), content_type, request.header(b"content-type")
            ),
        )
    if outcome.error is not None:
        raise outcome.error
    return message_id, outcome.serial


def _say(
    exchange: HttpExchange, status: int, text: str, shape: Mapping[str, object], headers: str = ""
) -> None:
    if exchange.text_errors:
        exchange.answer(status, f"{text}\n".encode(), TEXT_UTF8, headers)
    else:
        exchange.answer(status, msgspec.json.encode(shape), headers=headers)
