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
from hubbub.gateways.calls import (
    TOPIC_KEY_HEADER,
    HubRequest,
    NoQuery,
    flag,
    no_path,
    topic_key_of,
)
from hubbub.gateways.exchange import Exchange
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
    """Answers in words for people; in JSON for who accepts it."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def handle(self, call: HubRequest, exchange: Exchange, path: tuple[str, ...]) -> None:
        """`path` is what stands behind `/hub`. Raises `NotFound` for paths that are not here."""
        if path[-1:] == ("",):
            path = path[:-1]
        work: Coroutine[Any, Any, None]
        match path:
            case ("register",):
                call.expect(b"PUT")
                work = self._register(call, exchange)
            case ("subscribe",):
                call.expect(b"PUT")
                work = self._subscribe(call, exchange)
            case ("unsubscribe",):
                call.expect(b"DELETE")
                work = self._unsubscribe(call, exchange)
            case ("publish", *topic) if topic:
                call.expect(b"POST")
                work = self._publish(call, exchange, check_name("/".join(topic), "topic"))
            case _:
                raise no_path(call.request)
        exchange.complete(work)

    async def _register(self, call: HubRequest, exchange: Exchange) -> None:
        with_key = flag(call.query(_KeyQuery).key, "key")
        wanted = read_registration(call.request.body, with_key)
        key = await self._node.webhooks.register_topic(
            call.hub, call.identity, wanted.topic, wanted.key
        )
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

    async def _subscribe(self, call: HubRequest, exchange: Exchange) -> None:
        call.query(NoQuery)
        wanted = read_subscription(call.request.body)
        webhook = await self._node.webhooks.subscribe(call.hub, call.identity, wanted)
        text = f"what is published to {wanted.channel!r} goes to {wanted.callback}"
        shape = {"id": webhook.id, "topic": wanted.channel, "callback": wanted.callback}
        _say(exchange, 200, text, shape)

    async def _unsubscribe(self, call: HubRequest, exchange: Exchange) -> None:
        """Twice is as good as once."""
        leaving = read_unsubscription(call.query(Unsubscription))
        topic, callback = leaving.channel, leaving.callback
        await self._node.webhooks.find_topic(call.hub, topic)
        text = f"nothing goes from {topic!r} to {callback} any more"
        removed = True
        try:
            await self._node.webhooks.unsubscribe(call.hub, call.identity, leaving)
        except NotSubscribed:
            text = f"{callback} was not subscribed to {topic!r}"
            removed = False
        shape = {"topic": topic, "callback": callback, "removed": removed}
        _say(exchange, 200, text, shape)

    async def _publish(self, call: HubRequest, exchange: Exchange, topic: str) -> None:
        call.query(NoQuery)
        message_id, serial = await publish_body(self._node, call, topic, "light")
        text = f"published to {topic!r} as message {serial}, {message_id}"
        shape = {"topic": topic, "msgID": message_id, "channelSerial": str(serial)}
        _say(exchange, 200, text, shape)


async def publish_body(
    node: Node, call: HubRequest, channel: str, technology: Literal["light", "websub"]
) -> tuple[str, int]:
    """The request's body becomes a message; answers its id and serial. Raises what speaks against
    it."""
    request = call.request
    check_header_names(request.headers, (SECURITY_HEADER, TOPIC_KEY_HEADER))
    body, content_type = untouched_payload(request.body, request.header(b"content-type"))
    key = topic_key_of(request)
    with node.throttle.guess(call.hub.name, request.address if key is not None else ""):
        message_id, outcome = await node.webhooks.publish(
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
    exchange: Exchange, status: int, text: str, shape: Mapping[str, object], headers: str = ""
) -> None:
    if exchange.text_errors:
        exchange.answer(status, f"{text}\n".encode(), TEXT_UTF8, headers)
    else:
        exchange.answer(status, msgspec.json.encode(shape), headers=headers)
