"""Routes the paths of Light-PubSubHubbub and WebSub, and finds their hub."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from hubbub.domain.errors import BadRequest, NotFound
from hubbub.domain.permissions import Identity
from hubbub.engine.hub import Hub
from hubbub.engine.node import Node
from hubbub.engine.webhooks.service import Webhooks
from hubbub.gateways.calls import HubCall
from hubbub.gateways.credentials import identify, require_authenticated, require_known
from hubbub.gateways.exchange import HttpExchange
from hubbub.gateways.http import ReceivedRequest, Target
from hubbub.gateways.light import LightDoor
from hubbub.gateways.origins import is_loopback, names_address
from hubbub.gateways.websub import WebSubDoor
from hubbub.protocols import websub

Door = Literal["light", "websub"]

_DOORS: dict[str, Door] = {"hub": "light", "Hub": "light", "websub": "websub"}
_HOST = re.compile(r"[A-Za-z0-9._-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")


class DoorPath(msgspec.Struct, frozen=True):
    """The target of a path. `hub` is None at the root, where the settings name the hub."""

    door: Door
    hub: str | None
    rest: tuple[str, ...]


class WebDoors:
    """Serves the two protocols, whose errors are plain text."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._webhooks = node.feature(Webhooks)
        self._light = LightDoor(node)
        self._websub = WebSubDoor(node)

    def stop(self) -> None:
        """Cancels work that nobody waits for."""
        self._websub.stop()

    @staticmethod
    def find(segments: Sequence[str]) -> DoorPath | None:
        """None if the path belongs to neither protocol."""
        if segments[:2] == ("v1", "hubs") and len(segments) > 3:
            door = _DOORS.get(segments[3])
            return None if door is None else DoorPath(door, segments[2], tuple(segments[4:]))
        door = _DOORS.get(segments[0]) if segments else None
        return None if door is None else DoorPath(door, None, tuple(segments[1:]))

    def handle(
        self,
        place: DoorPath,
        request: ReceivedRequest,
        target: Target,
        exchange: HttpExchange,
        scheme: str,
    ) -> None:
        exchange.text_errors = not accepts_json(request)
        hub = self._node.visit(
            place.hub if place.hub is not None else self._root_hub(), request.address
        )
        identify_caller = require_known if place.door == "light" else _websub_caller
        call = HubCall(hub, identify_caller(request, target, hub, self._node), request, target)
        if place.door == "light":
            self._light.handle(call, exchange, place.rest)
        elif place.rest in ((), ("",)):
            base = self._base(request, exchange, scheme)
            bases = self._bases(request, scheme)
            self._websub.handle(call, exchange, base, bases, at_root=place.hub is None)
        else:
            raise NotFound("the WebSub hub is at /websub, without anything behind it")

    def links(
        self,
        request: ReceivedRequest,
        exchange: HttpExchange,
        scheme: str,
        hub: Hub,
        channel: str,
        form: websub.TopicForm = "messages",
    ) -> str:
        """The header by which subscribers discover this WebSub hub. If the hub's public address is
        not certain, the links are relative to the requested URL."""
        base = self._base(request, exchange, scheme)
        topic = websub.topic_url(base, hub.name, channel, form)
        return f"Link: {websub.links(websub.hub_url(base, hub.name), topic)}\r\n"

    def _root_hub(self) -> str:
        """Raises `BadRequest` if the hub is ambiguous."""
        configured = self._webhooks.limits.hub
        if configured is not None:
            return configured
        names = self._node.directory.names()
        if len(names) != 1:
            raise BadRequest(
                "it is not clear which hub this path means; set `webhooks.hub`, or use "
                "/v1/hubs/{hub}/hub/… and /v1/hubs/{hub}/websub"
            )
        return names[0]

    def _base(self, request: ReceivedRequest, exchange: HttpExchange, scheme: str) -> str:
        """The public address: the configured one, or the request's `Host` if it is the local
        address of the connection. Otherwise empty: a forged `Host` would persist in caches and
        subscriptions."""
        if public := self._webhooks.limits.public_url:
            return public.rstrip("/")
        host = request.header(b"host") or ""
        local = exchange.connection.transport.get_extra_info("sockname")
        return f"{scheme}://{host}" if names_address(host, local) else ""

    def _bases(self, request: ReceivedRequest, scheme: str) -> list[str]:
        """The addresses that identify own topics. All names of this machine count as equal."""
        public = self._webhooks.limits.public_url
        bases = [public.rstrip("/")] if public else []
        host = request.header(b"host") or ""
        if _HOST.fullmatch(host):
            bases.append(f"{scheme}://{host}")
            if is_loopback(host):
                port = urlsplit(f"//{host}").port
                end = "" if port is None else f":{port}"
                bases += [f"{scheme}://{name}{end}" for name in ("localhost", "127.0.0.1")]
        return bases


def _websub_caller(request: ReceivedRequest, target: Target, hub: Hub, node: Node) -> Identity:
    """Admits callers without a token if the hub does: their callbacks are verified."""
    identity = identify(request, target, hub, node)
    if not hub.configuration.settings.open_topics:
        require_authenticated(identity, hub)
    node.throttle.admit(hub.name, identity, request.address)
    return identity


def accepts_json(request: ReceivedRequest) -> bool:
    """Only an explicit `application/json` counts; clients of the original paper accept web pages
    and pictures."""
    return "application/json" in (request.header(b"accept") or "").lower()
