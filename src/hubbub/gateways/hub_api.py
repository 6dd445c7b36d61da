"""The hub's own HTTP API: the routes with `Access.HUB` of the table, and what serves them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from itertools import chain
from typing import Any, TypeVar

from hubbub.domain.errors import GoingAway
from hubbub.engine.node import Node
from hubbub.gateways.calls import (
    BeginStream,
    HubRequest,
    Links,
    NamesOrigin,
    NoQuery,
    read_query,
)
from hubbub.gateways.commands_api import COMMAND_API
from hubbub.gateways.communication_api import COMMUNICATION_API
from hubbub.gateways.credentials import recognize, require_identity
from hubbub.gateways.exchange import HttpExchange
from hubbub.gateways.handshake import note_header
from hubbub.gateways.http import ReceivedRequest, Target
from hubbub.gateways.messages_api import MESSAGE_API, Order, carry_out
from hubbub.gateways.routes import AnyRoute, Router
from hubbub.gateways.services_api import SERVICE_API
from hubbub.gateways.threads_api import THREAD_API
from hubbub.gateways.topics_api import TOPIC_API, PreparedGet, get
from hubbub.gateways.webhooks_api import WEBHOOK_API
from hubbub.rooms import modules
from hubbub.tasks import TaskSet, awaited

T = TypeVar("T")
_NO_QUERY = NoQuery()

HUB_ROUTES: list[AnyRoute] = [
    *MESSAGE_API,
    *THREAD_API,
    *TOPIC_API,
    *chain.from_iterable(room.ROUTES for room in modules("gateways", "hub_routes")),
    *SERVICE_API,
    *COMMAND_API,
    *WEBHOOK_API,
    *COMMUNICATION_API,
]


class HubApi:
    """Serves the hub's own paths, /v1/hubs/{hub}/…, by their table."""

    words = frozenset(route.segments[3] for route in HUB_ROUTES)
    """The second path segments that belong to this API."""

    def __init__(
        self, node: Node, links: Links, names_origin: NamesOrigin, begin_stream: BeginStream
    ) -> None:
        self.links = links
        self.names_origin = names_origin
        self.begin_stream = begin_stream
        self._node = node
        self._router = Router(HUB_ROUTES, empty_names=True)
        self._waiting = TaskSet(awaited)

    def stop(self) -> None:
        """Ends waiting requests."""
        self._waiting.cancel()

    def handle(self, request: ReceivedRequest, target: Target, exchange: HttpExchange) -> None:
        """Raises `NotFound`, `MethodNotAllowed`, the errors of authentication, and those of the
        path's handler."""
        node, segments = self._node, target.segments
        hub = node.visit(segments[2], request.address)
        exchange.extra_headers += note_header(node.note_about(hub))
        route, path = self._router.find(request.method.decode("latin-1"), segments)
        identity = (route.caller or require_identity)(request, target, hub, node)
        query = _NO_QUERY if route.any_query else read_query(target, route.query)
        assert route.handler is not None
        asked: HubRequest[Any] = HubRequest(
            hub, identity, request, target, exchange, self, path, query
        )
        work = route.handler(node, asked)
        if work is not None:
            reads = route.method == "GET" or route.gives_up
            (exchange.run if reads else exchange.complete)(work)

    def handle_again(self, request: ReceivedRequest, exchange: HttpExchange) -> bool:
        """The fast path for a head that was handled before. Returns whether it applies."""
        prepared, node = request.head.memo, self._node
        if prepared is None:
            return False
        hub = node.hubs.get(prepared.hub)
        identity = None if hub is None else recognize(request, hub, node)
        if hub is None or identity is None:
            return False
        if isinstance(prepared, Order):
            carry_out(node, prepared, hub, identity, request, exchange)
        elif isinstance(prepared, PreparedGet):
            exchange.run(get(node, self, hub, identity, prepared.wanted))
        return True

    async def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return await self._waiting.start(work)
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise
            raise GoingAway("the server is shutting down; ask again") from None
