"""The listener: one port for WebSocket, server-sent events and HTTP.

It applies admission limits and origin checks, dispatches requests by path, and ends connections
that exceed their deadlines."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from hubbub.domain.envelope_headers import FIELDS, PUSH_HEADER, SECURITY_HEADER
from hubbub.domain.errors import (
    HUB_AWAY,
    HubbubError,
    InvalidName,
    MethodNotAllowed,
    NotFound,
    OriginRefused,
    Overloaded,
    UpgradeRequired,
)
from hubbub.domain.holdings import Holdings
from hubbub.domain.limits import network_of
from hubbub.engine.access.issuers import KeysNeeded
from hubbub.engine.hub import Hub
from hubbub.engine.node import Node
from hubbub.gateways.access_log import LoggedConnection
from hubbub.gateways.admin_door import AdminDoor
from hubbub.gateways.calls import TOPIC_KEY_HEADER, no_path
from hubbub.gateways.content_headers import SPELT_HEADER
from hubbub.gateways.credentials import token_of
from hubbub.gateways.dashboard import door as dashboard
from hubbub.gateways.dashboard.door import DashboardDoor
from hubbub.gateways.dashboard.origin import SEGMENT, DashboardPlace
from hubbub.gateways.exchange import Asking, HttpExchange
from hubbub.gateways.handshake import checked_key
from hubbub.gateways.http import HttpLimits, ReceivedRequest, RequestHead, Target, parse_target
from hubbub.gateways.http_connection import Handler, HttpConnection
from hubbub.gateways.hub_api import HubApi
from hubbub.gateways.live import LiveDoor
from hubbub.gateways.origins import is_loopback, origin_allowed
from hubbub.gateways.outlet import Lingering, Outlet
from hubbub.gateways.proxies import TrustedProxies
from hubbub.gateways.settings import ConnectionSettings, ListenerSettings
from hubbub.gateways.socket_io import PATH, SocketIoDoor
from hubbub.gateways.sockets import bound_unsent
from hubbub.gateways.static import StaticFile
from hubbub.gateways.turns import Turns
from hubbub.gateways.web_doors import WebDoors
from hubbub.protocols.websub import TopicForm
from hubbub.rooms import modules
from hubbub.tasks import TaskSet

_ROOT_PATHS = tuple(modules("gateways", "root_paths"))
_OWN_HEADERS = (TOPIC_KEY_HEADER, SECURITY_HEADER, PUSH_HEADER, *FIELDS.values())


class ServerPage(Protocol):
    """A page of the server itself (health, metrics …)."""

    def __call__(
        self, request: ReceivedRequest, /
    ) -> tuple[int, str, bytes] | Awaitable[tuple[int, str, bytes]]:
        """Returns status, content type and body, or a coroutine. Raises `HubbubError`."""


class SocketDoor(Protocol):
    """WebSockets with a protocol of their own."""

    def open_socket(
        self, request: ReceivedRequest, hub: str | None, connection: HttpConnection, rest: bytes, /
    ) -> None:
        """Completes the handshake; `rest` followed it. `hub` is None if the path names none. Raises
        `HubbubError`."""


class Listener:
    """Serves all connections of a process. It is the `Handler` of its HTTP connections."""

    def __init__(
        self,
        node: Node,
        settings: ListenerSettings,
        connection: ConnectionSettings,
        pages: dict[str, ServerPage],
        admin: AdminDoor | None = None,
        *,
        static: Mapping[str, StaticFile] | None = None,
        dashboard: DashboardDoor | None = None,
        access_log: bool = False,
        developer: bool = False,
    ) -> None:
        """`admin` serves the admin API and its description. `static` are files by their paths.
        `developer`: only requests that name
        this machine are served, so that no foreign page gets in by giving its own name this
        machine's address (DNS rebinding); and there is an echo for conformance suites."""
        self._admin = admin
        self._node = node
        self._settings = settings
        self._access_log = access_log
        self._developer = developer
        self._http = HttpLimits(
            head_bytes=settings.max_header_bytes,
            body_bytes=connection.http.max_body_bytes,
            head_seconds=settings.header_timeout,
        )
        self._pages = pages
        self._static = static or {}
        self._dashboard = dashboard
        self._web = WebDoors(node)
        self._watched: set[HttpConnection] = set()
        self._servers: list[asyncio.Server] = []
        largest = max(
            connection.http.max_body_bytes,
            connection.ws.send_buffer_bytes,
            connection.sse.send_buffer_bytes,
        )
        self.holdings = Holdings(max(settings.max_buffered_bytes, 2 * largest))
        self.turns = Turns(node.clock)
        self._lingering = Lingering()
        self._live = LiveDoor(
            node, settings, connection, self.holdings, self._lingering, self.turns
        )
        self._api = HubApi(node, self._links, self._names_origin, self._live.begin_stream)
        self._sockets: dict[str, SocketDoor] = {}
        self.socket_io = SocketIoDoor(
            node,
            connection.socket_io,
            connection.ws,
            self.holdings,
            self._lingering,
            self.turns,
            self._live.admit,
            self._check_origin,
        )
        self.now = 0.0
        self.known_heads: dict[bytes, RequestHead] = {}
        self.under_way = TaskSet()
        self._proxies = TrustedProxies(settings.trusted_proxies)
        self._place = DashboardPlace(settings.dashboard)

    def add_sockets(self, word: str, door: SocketDoor) -> None:
        """Serves WebSockets at `/v1/hubs/{hub}/{word}` and `/{word}` by this door."""
        self._sockets[word] = door

    def check_origin(self, request: ReceivedRequest, hub: str) -> None:
        """For a path that names no hub, once the hub is known. Raises `OriginRefused`."""
        self._check_origin(request, request.headers[b"origin"], hub)

    def admit(self, address: str) -> None:
        """Accepts a new long-lived connection. Raises `Overloaded`, `RateLimited`."""
        self._live.admit(address)

    def count_in(self, connection: Outlet, address: str) -> None:
        """The connection's backlog counts for the limit over all connections."""
        connection.count_in(self.holdings, self._lingering, address)

    async def start(
        self,
        host: str,
        port: int,
        backlog: int = 2048,
        tls: ssl.SSLContext | None = None,
        shared: bool = False,
    ) -> int:
        """Listens, also at the dashboard's own port if there is one; returns the port, which the
        system chooses for 0. `shared`: other processes listen on the same port."""
        self.now = asyncio.get_running_loop().time()
        own_port = self._settings.dashboard.port
        if own_port is not None:
            at_own_port = partial(self._connection, _DashboardPort(self))
            await self._listen(at_own_port, host, own_port, backlog, tls, shared)
        at_port = partial(self._connection, self)
        return await self._listen(at_port, host, port, backlog, tls, shared)

    async def _listen(
        self,
        make: Callable[[], HttpConnection],
        host: str,
        port: int,
        backlog: int,
        tls: ssl.SSLContext | None,
        shared: bool,
    ) -> int:
        server = await asyncio.get_running_loop().create_server(
            make,
            host,
            port,
            backlog=backlog,
            ssl=tls,
            reuse_address=True,
            reuse_port=shared or None,
        )
        bound_unsent(server)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Accepts no new connections; HTTP connections end after their response."""
        for server in self._servers:
            server.close()
        self._api.stop()
        self._web.stop()
        self.socket_io.handshakes.stop()
        for connection in list(self._watched):
            connection.leave()

    async def close(self) -> None:
        """Ends all connections after a short time for clients to read the last data and for
        requests in progress."""
        for connection in self._watched:
            self._lingering.add(connection.transport)
        await self._lingering.end()

    def sweep(self, now: float | None = None) -> None:
        """Called every second: ends connections that exceed their deadlines. `now` is in the event
        loop's time, the default its current time."""
        self.now = asyncio.get_running_loop().time() if now is None else now
        for connection in [c for c in self._watched if c.deadline <= self.now]:
            connection.time_out()
        self.socket_io.sweep()

    def _connection(self, handler: Handler) -> HttpConnection:
        if self._access_log:
            return LoggedConnection(handler, self._http, self, self._proxies)
        return HttpConnection(handler, self._http, self)

    def watch(self, connection: HttpConnection) -> None:
        self._watched.add(connection)
        if len(self._watched) + self._node.session_count > self._settings.max_connections:
            connection.refuse(Overloaded("all places are taken; try again later"))

    def unwatch(self, connection: HttpConnection) -> None:
        self._watched.discard(connection)
        self._lingering.discard(connection.transport)
        self.holdings.release(connection)

    def hold(self, connection: HttpConnection, size: int) -> None:
        address = connection.peer
        if self._proxies.any:
            address = self._proxies.client_of(address, connection.headers, False)[0]
        self.holdings.hold(connection, network_of(address), size)

    @property
    def http_connections(self) -> int:
        return len(self._watched)

    # -- requests -------------------------------------------------------------------------------

    def handle(self, request: ReceivedRequest, exchange: HttpExchange) -> None:
        connection = exchange.connection
        request.address = connection.peer
        if self._proxies.any:
            request.address = self._client_of(request, connection)[0]
        try:
            if not self._api.handle_again(request, exchange):
                self._dispatch(request, exchange)
        except KeysNeeded as needed:
            exchange.run(self._dispatch_later(request, exchange, needed))

    def handle_at_dashboard(self, request: ReceivedRequest, exchange: HttpExchange) -> None:
        """Handles a request that arrived at the dashboard's own port."""
        request.address = self._client_of(request, exchange.connection)[0]
        try:
            self._dispatch(request, exchange, at_dashboard=True)
        except KeysNeeded as needed:
            exchange.run(self._dispatch_later(request, exchange, needed, at_dashboard=True))

    async def _dispatch_later(
        self,
        request: ReceivedRequest,
        exchange: HttpExchange,
        needed: KeysNeeded,
        at_dashboard: bool = False,
    ) -> None:
        """Fetches the keys of the token's foreign issuer first."""
        await self._node.tokens.fetch_keys(needed)
        if at_dashboard:
            self.handle_at_dashboard(request, exchange)
        else:
            self.handle(request, exchange)

    def _dispatch(
        self, request: ReceivedRequest, exchange: HttpExchange, at_dashboard: bool = False
    ) -> None:
        self._check_host(request)
        target = self._resolved(request, parse_target(request.url))
        segments = target.segments
        self._place.check(request, segments, at_dashboard)
        in_hub = len(segments) > 3 and segments[0] == "v1" and segments[1] == "hubs"
        if self._for_socket_io(segments):
            self.socket_io.handle(request, segments, exchange)
            return
        file = None if in_hub else self._static.get("/" + "/".join(segments))
        if file is not None and file.shared:
            file.answer(request, exchange)
            return
        origin = request.headers.get(b"origin")
        if origin is not None:
            hub_name = segments[2] if in_hub else None
            if in_hub and segments[3:] == ("socket",):
                # Browsers hide why they could not open a WebSocket; here a page reads it.
                exchange.extra_headers = _readable_by(origin)
            exchange.extra_headers = self._check_origin(request, origin, hub_name)
            if request.method == b"OPTIONS":
                self._answer_preflight(exchange)
                return
        if in_hub and segments[3] in self._api.words:
            self._api.handle(request, target, exchange)
        elif self._admin is not None and _for_administration(segments):
            if segments[:2] == ("v1", "admin"):
                dashboard.check_admin_page(request)
            self._admin.handle(request, exchange)
        elif self._dashboard is not None and segments[:1] == (SEGMENT,):
            self._dashboard.handle(request, segments[1:], exchange)
        elif (place := self._web.find(segments)) is not None:
            self._web.handle(place, request, target, exchange, self._scheme(request, exchange))
        elif file is not None:
            file.answer(request, exchange)
        elif not in_hub:
            self._serve_page(request, segments, exchange)
        elif segments[3:] == ("events",):
            self._live.open_stream(request, target, exchange)
        elif segments[3:] == ("socket",):
            self._live.check_admission(request.address)
            raise UpgradeRequired("connect here with WebSocket")
        else:
            raise no_path(request)

    def _resolved(self, request: ReceivedRequest, target: Target) -> Target:
        """The path in a hub that a path without one stands for, if a room has declared it."""
        for room in _ROOT_PATHS:
            segments = room.resolve(self._node, target.segments, request.header(b"host"))
            if segments is not None:
                return Target(segments, target.query)
        return target

    def _client_of(self, request: ReceivedRequest, connection: Asking) -> tuple[str, str]:
        """The caller's address and scheme."""
        encrypted = connection.transport.get_extra_info("sslcontext") is not None
        return self._proxies.client_of(connection.peer, request.headers, encrypted)

    def _scheme(self, request: ReceivedRequest, exchange: HttpExchange) -> str:
        return self._client_of(request, exchange.connection)[1]

    def _links(
        self,
        request: ReceivedRequest,
        exchange: HttpExchange,
        hub: Hub,
        channel: str,
        form: TopicForm = "messages",
    ) -> str:
        scheme = self._scheme(request, exchange)
        return self._web.links(request, exchange, scheme, hub, channel, form)

    def _serve_page(
        self, request: ReceivedRequest, segments: Sequence[str], exchange: HttpExchange
    ) -> None:
        page = self._pages.get("/" + "/".join(segments))
        if page is None:
            path = request.url.partition(b"?")[0].decode("latin-1")
            raise NotFound(f"there is nothing at {path}; see docs/protocol.md for the paths")
        if request.method not in (b"GET", b"HEAD"):
            raise MethodNotAllowed("this page is only for GET", ("GET", "HEAD"))
        answer = page(request)
        if isinstance(answer, tuple):
            status, content_type, body = answer
            exchange.answer_own(status, body, content_type)
        else:
            exchange.run(self._serve_later(answer, exchange))

    @staticmethod
    async def _serve_later(page: Awaitable[tuple[int, str, bytes]], exchange: HttpExchange) -> None:
        status, content_type, body = await page
        exchange.answer_own(status, body, content_type)

    # -- origins --------------------------------------------------------------------------------

    def _check_host(self, request: ReceivedRequest) -> None:
        """Raises `OriginRefused`."""
        if self._developer and not is_loopback(request.header(b"host")):
            raise OriginRefused(
                f"the host {request.header(b'host')!r} is not this machine; developer mode serves "
                "only localhost"
            )

    def _check_origin(self, request: ReceivedRequest, origin: bytes, hub_name: str | None) -> bytes:
        """The CORS headers for an allowed origin. Raises `OriginRefused`."""
        text = origin.decode("latin-1")
        if not origin_allowed(text, request.header(b"host"), self._origins_of(hub_name)):
            self._note_refusal(text, hub_name)
            raise OriginRefused(
                f"pages from {text!r} may not use this server; add them to listener.allowedOrigins"
                if hub_name is None
                else f"pages from {text!r} may not use hub {hub_name!r}, or it does not exist: "
                "check its name, or add the origin to its allowedOrigins"
            )
        return _readable_by(origin) + (
            b"Access-Control-Expose-Headers: Retry-After, ETag, Link, %b\r\n"
            % SPELT_HEADER.encode()
        )

    def _note_refusal(self, origin: str, hub_name: str | None) -> None:
        exists = hub_name is not None and hub_name in self._node.directory.names()
        self._node.refusals.origin(origin, hub_name, exists)

    def _origins_of(self, hub_name: str | None) -> Sequence[str]:
        if hub_name is not None:
            try:
                own = self._node.directory.get(hub_name).settings.allowed_origins
            except (*HUB_AWAY, InvalidName):
                own = ()
            if own:
                return own
        return self._settings.allowed_origins

    def _names_origin(self, request: ReceivedRequest, origin: str, hub_name: str) -> bool:
        named = [each for each in self._origins_of(hub_name) if each not in ("*", "null")]
        return origin_allowed(origin, request.header(b"host"), named)

    @staticmethod
    def _answer_preflight(exchange: HttpExchange) -> None:
        exchange.answer(
            204,
            b"",
            headers=(
                "Access-Control-Allow-Methods: GET, POST, PUT, PATCH, DELETE, OPTIONS\r\n"
                "Access-Control-Allow-Headers: Authorization, Content-Type, Last-Event-ID, "
                f"If-Match, If-None-Match, {', '.join(_OWN_HEADERS)}\r\n"
                "Access-Control-Max-Age: 600\r\n"
            ),
        )

    # -- connections that stay ------------------------------------------------------------------

    def upgrade(
        self,
        request: ReceivedRequest,
        connection: HttpConnection,
        rest: bytes,
        at_dashboard: bool = False,
    ) -> None:
        request.address = self._client_of(request, connection)[0]
        self._check_host(request)
        target = parse_target(request.url)
        segments = target.segments
        self._place.check(request, segments, at_dashboard, upgrade=True)
        if self._for_socket_io(segments):
            self.socket_io.connect(request, segments, connection, rest)
            return
        if self._dashboard is not None and segments == (SEGMENT, "socket"):
            checked_key(request)
            enter = self._dashboard.watching(request)
            self._live.open_board(request, connection, rest, enter)
            return
        if self._sockets and (found := self._socket_door(segments)) is not None:
            door, hub_name = found
            origin = request.headers.get(b"origin")
            if origin is not None:
                self._check_origin(request, origin, hub_name)
            door.open_socket(request, hub_name, connection, rest)
            return
        echo = self._developer and segments == ("v1", "echo")
        if not echo and (segments[:2] != ("v1", "hubs") or segments[3:] != ("socket",)):
            raise NotFound("there is no WebSocket here; connect to /v1/hubs/{hub}/socket")
        origin = request.headers.get(b"origin")
        if origin is not None:
            self._check_origin(request, origin, None if echo else segments[2])
        checked_key(request)
        needed = None if echo else self._keys_needed(request, target)
        if needed is not None:
            connection.pause_reading()
            connection.spawn(self._upgrade_later(request, connection, rest, needed, at_dashboard))
            return
        if echo:
            self._live.open_echo(request, connection, rest)
        else:
            self._live.open_socket(request, target, connection, rest)

    def _socket_door(self, segments: Sequence[str]) -> tuple[SocketDoor, str | None] | None:
        """The door of a path, and the hub that the path names."""
        hub_name = None
        if len(segments) == 4 and segments[:2] == ("v1", "hubs"):
            hub_name = segments[2]
        elif len(segments) != 1:
            return None
        door = self._sockets.get(segments[-1])
        return None if door is None else (door, hub_name)

    def _for_socket_io(self, segments: Sequence[str]) -> bool:
        return self.socket_io.enabled and segments[:2] == PATH

    def _keys_needed(self, request: ReceivedRequest, target: Target) -> KeysNeeded | None:
        """The keys to fetch before the handshake; other errors are reported after it."""
        try:
            hub = self._node.visit(target.segments[2], request.address)
            if hub.configuration.settings.trusted_issuers:
                token = token_of(request, target)
                if token is not None:
                    self._node.tokens.verify(token, hub.name)
        except KeysNeeded as needed:
            return needed
        except HubbubError:
            pass
        return None

    async def _upgrade_later(
        self,
        request: ReceivedRequest,
        connection: HttpConnection,
        rest: bytes,
        needed: KeysNeeded,
        at_dashboard: bool,
    ) -> None:
        await self._node.tokens.fetch_keys(needed)
        rest += connection.take_rest()
        connection.resume_reading()
        try:
            self.upgrade(request, connection, rest, at_dashboard)
        except HubbubError as error:
            connection.refuse(error)


class _DashboardPort:
    """The handler of connections to the dashboard's own port."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def handle(self, request: ReceivedRequest, exchange: HttpExchange) -> None:
        self._listener.handle_at_dashboard(request, exchange)

    def upgrade(self, request: ReceivedRequest, connection: HttpConnection, rest: bytes) -> None:
        self._listener.upgrade(request, connection, rest, at_dashboard=True)


def _readable_by(origin: bytes) -> bytes:
    return b"Access-Control-Allow-Origin: %b\r\nVary: Origin\r\n" % origin


_ADMINISTERED = (
    ("token",),
    ("push-tokens",),
    ("push-subscriptions",),
    ("push",),
    ("peer-subscriptions",),
)
"""The hub's own paths that the table of routes serves as well."""


def _for_administration(segments: Sequence[str]) -> bool:
    """Whether the table of routes serves the path (`gateways.admin.table`)."""
    if segments[:2] == ("v1", "admin") or segments == ("openapi.json",):
        return True
    return segments[:2] == ("v1", "hubs") and segments[3:4] in _ADMINISTERED


def tls_context(certificate: str, key: str) -> ssl.SSLContext:
    """TLS 1.2 and newer, with the system's defaults."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    return context
