"""The doors of webhooks: which of them a path means, in which hub, and for whom it is open."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from hubbub.domain.errors import BadRequest, NotAuthenticated, NotFound
from hubbub.domain.permissions import Identity
from hubbub.engine.hub import Hub
from hubbub.engine.node import Node
from hubbub.gateways.calls import HubRequest
from hubbub.gateways.credentials import identify, require_authenticated
from hubbub.gateways.exchange import Exchange
from hubbub.gateways.http import Request, Target
from hubbub.gateways.light import LightDoor
from hubbub.gateways.origins import is_loopback, names_address
from hubbub.gateways.webhooks_api import WebhooksApi
from hubbub.gateways.websub import WebSubDoor
from hubbub.protocols import websub

Door = Literal["light", "websub", "plain"]

_DOORS: dict[str, Door] = {
    "hub": "light",
    "Hub": "light",
    "websub": "websub",
    "webhooks": "plain",
}
_HOST = re.compile(r"[A-Za-z0-9._-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")


class DoorPath(msgspec.Struct, frozen=True):
    """Where a path leads. `hub` is None at the root, where the settings say which one it is."""

    door: Door
    hub: str | None
    rest: tuple[str, ...]


class WebDoors:
    """Light-PubSubHubbub, WebSub and plain webhooks."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._light = LightDoor(node)
        self._websub = WebSubDoor(node)
        self._plain = WebhooksApi(node)

    def stop(self) -> None:
        """What nobody waits for any more is given up."""
        self._websub.stop()

    @staticmethod
    def find(segments: Sequence[str]) -> DoorPath | None:
        """None: the path is none of theirs."""
        if segments[:2] == ("v1", "hubs") and len(segments) > 3:
            door = _DOORS.get(segments[3])
            return None if door is None else DoorPath(door, segments[2], tuple(segments[4:]))
        door = _DOORS.get(segments[0]) if segments else None
        if door is None or door == "plain":
            return None
        return DoorPath(door, None, tuple(segments[1:]))

    def handle(
        self, place: DoorPath, request: Request, target: Target, exchange: Exchange, scheme: str
    ) -> None:
        exchange.text_errors = place.door != "plain" and not accepts_json(request)
        hub = self._node.visit(place.hub if place.hub is not None else self._root_hub())
        identity = identify(request, target, hub, self._node)
        self._check_access(place.door, hub, identity)
        self._node.throttle.admit(hub.name, identity, request.address)
        call = HubRequest(hub, identity, request, target)
        if place.door == "light":
            self._light.handle(call, exchange, place.rest)
        elif place.door == "plain":
            self._plain.handle(call, exchange, place.rest)
        elif place.rest in ((), ("",)):
            base = self._base(request, exchange, scheme)
            bases = self._bases(request, scheme)
            self._websub.handle(call, exchange, base, bases, at_root=place.hub is None)
        else:
            raise NotFound("the WebSub hub is at /websub, without anything behind it")

    def links(
        self,
        request: Request,
        exchange: Exchange,
        scheme: str,
        hub: Hub,
        channel: str,
        form: websub.TopicForm = "messages",
    ) -> str:
        """The header with which subscribers find this WebSub hub. Where it is not certain under
        which address the hub is reached, the links are relative to the URL that was asked for."""
        base = self._base(request, exchange, scheme)
        topic = websub.topic_url(base, hub.name, channel, form)
        return f"Link: {websub.links(websub.hub_url(base, hub.name), topic)}\r\n"

    def _root_hub(self) -> str:
        """Raises `BadRequest` where it is not clear which hub is meant."""
        configured = self._node.webhooks.limits.hub
        if configured is not None:
            return configured
        names = self._node.directory.names()
        if len(names) != 1:
            raise BadRequest(
                "it is not clear which hub this path means; set `webhooks.hub`, or use "
                "/v1/hubs/{hub}/hub/… and /v1/hubs/{hub}/websub"
            )
        return names[0]

    @staticmethod
    def _check_access(door: Door, hub: Hub, identity: Identity) -> None:
        """A callback that nobody verifies is only for callers who are known, unless the hub has
        open topics. What they may do there is decided by channel. Raises `NotAuthenticated`."""
        if hub.configuration.settings.open_topics:
            return
        require_authenticated(identity, hub)
        if door != "websub" and not identity.authenticated:
            raise NotAuthenticated(
                f"hub {hub.name!r} wants to know whose callback this is: send "
                "'Authorization: Bearer …' (`hubbub token` makes one)"
            )

    def _base(self, request: Request, exchange: Exchange, scheme: str) -> str:
        """The address to tell others: the configured one, or the request's `Host` where that is
        the address which the connection was made to. Otherwise empty: a `Host` can be forged, and
        what was made of it would live on in caches and subscriptions."""
        if public := self._node.webhooks.limits.public_url:
            return public.rstrip("/")
        host = request.header(b"host") or ""
        local = exchange.connection.transport.get_extra_info("sockname")
        return f"{scheme}://{host}" if names_address(host, local) else ""

    def _bases(self, request: Request, scheme: str) -> list[str]:
        """The addresses by which own topics are known. Every name of this machine counts as the
        same."""
        public = self._node.webhooks.limits.public_url
        bases = [public.rstrip("/")] if public else []
        host = request.header(b"host") or ""
        if _HOST.fullmatch(host):
            bases.append(f"{scheme}://{host}")
            if is_loopback(host):
                port = urlsplit(f"//{host}").port
                end = "" if port is None else f":{port}"
                bases += [f"{scheme}://{name}{end}" for name in ("localhost", "127.0.0.1")]
        return bases


def accepts_json(request: Request) -> bool:
    """Only who says so; the clients of the paper accept web pages and pictures."""
    return "application/json" in (request.header(b"accept") or "").lower()
