"""The doors of webhooks: which of them a path means, in which hub, and for whom it is open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from hubbub.domain.errors import BadRequest, NotAuthenticated
from hubbub.domain.permissions import Identity
from hubbub.engine.hub import Hub
from hubbub.engine.node import Node
from hubbub.gateways.calls import Call
from hubbub.gateways.credentials import identify, require_authenticated
from hubbub.gateways.http import Exchange, Request, Target
from hubbub.gateways.light import LightDoor
from hubbub.gateways.webhooks_api import WebhooksApi

Door = Literal["light", "plain"]

_DOORS: dict[str, Door] = {
    "hub": "light",
    "Hub": "light",
    "webhooks": "plain",
}


class Place(msgspec.Struct, frozen=True):
    """Where a path leads. `hub` is None at the root, where the settings say which one it is."""

    door: Door
    hub: str | None
    rest: tuple[str, ...]


class WebDoors:
    """Light-PubSubHubbub and plain webhooks."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._light = LightDoor(node)
        self._plain = WebhooksApi(node)

    @staticmethod
    def find(segments: Sequence[str]) -> Place | None:
        """None: the path is none of theirs."""
        if segments[:2] == ("v1", "hubs") and len(segments) > 3:
            door = _DOORS.get(segments[3])
            return None if door is None else Place(door, segments[2], tuple(segments[4:]))
        door = _DOORS.get(segments[0]) if segments else None
        if door is None or door == "plain":
            return None
        return Place(door, None, tuple(segments[1:]))

    def handle(self, place: Place, request: Request, target: Target, exchange: Exchange) -> None:
        exchange.text_errors = place.door != "plain" and not accepts_json(request)
        hub = self._node.hub(place.hub if place.hub is not None else self._root_hub())
        identity = identify(request, target, hub, self._node.tokens)
        self._check_access(hub, identity)
        call = Call(hub, identity, request, target)
        if place.door == "light":
            self._light.handle(call, exchange, place.rest)
        else:
            self._plain.handle(call, exchange, place.rest)

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
    def _check_access(hub: Hub, identity: Identity) -> None:
        """A callback that nobody verifies is only for callers who are known, unless the hub is
        open. Raises `NotAuthenticated`."""
        if hub.configuration.settings.open_topics:
            return
        require_authenticated(identity, hub)
        if not identity.authenticated:
            raise NotAuthenticated(
                f"hub {hub.name!r} has no open topics: send 'Authorization: Bearer …' "
                "(`hubbub token` makes one)"
            )


def accepts_json(request: Request) -> bool:
    """Only who says so; the clients of the paper accept web pages and pictures."""
    return "application/json" in (request.header(b"accept") or "").lower()
