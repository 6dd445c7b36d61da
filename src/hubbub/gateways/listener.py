"""The listener: one port for WebSocket, server-sent events and HTTP.

It decides who is let in at all (admission, origin), finds the right door by the path, and looks
after connections that take too long.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Mapping, Sequence
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
from hubbub.gateways.credentials import token_of
from hubbub.gateways.dashboard import door as dashboard
from hubbub.gateways.dashboard.door import DashboardDoor
from hubbub.gateways.exchange import Asking, Exchange
from hubbub.gateways.handshake import checked_key
from hubbub.gateways.http import Head, HttpLimits, Request, Target, parse_target
from hubbub.gateways.http_connection import HttpConnection
from hubbub.gateways.hub_api import HubApi
from hubbub.gateways.live import LiveDoor
from hubbub.gateways.origins import is_loopback, origin_allowed
from hubbub.gateways.outlet import Lingering
from hubbub.gateways.proxies import TrustedProxies
from hubbub.gateways.settings import ConnectionSettings, ListenerSettings
from hubbub.gateways.socket_io import PATH, SocketIoDoor
from hubbub.gateways.sockets import bound_unsent
from hubbub.gateways.static import StaticFile
from hubbub.gateways.turns import Turns
from hubbub.gateways.web_doors import WebDoors
from hubbub.protocols.websub import TopicForm
from hubbub.tasks import TaskSet

_API = frozenset(
    ("channels", "comm", "commands", "messages", "rpc", "streams", "subscriptions", "topics")
)
_OWN_HEADERS = (TOPIC_KEY_HEADER, SECURITY_HEADER, PUSH_HEADER, *FIELDS.values())


class Page(Protocol):
    """A page of the server's own (health, metrics …)."""

    def __call__(
        self, request: Request, /
    ) -> tuple[int, str, bytes] | Awaitable[tuple[int, str, bytes]]:
        """Status, content type, body, now or later. Raises `HubbubError`."""


class Listener:
    """Serves all connections of a process. It is the `Handler` of its HTTP connections."""

    def __init__(
        self,
        node: Node,
        settings: ListenerSettings,
        connection: ConnectionSettings,
        pages: dict[str, Page],
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
        self._api = HubApi(node, self._links)
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
        self.known_heads: dict[bytes, Head] = {}
        self.under_way = TaskSet()
        self._proxies = TrustedProxies(settings.trusted_proxies)

    async def start(
        self,
        host: str,
        port: int,
        backlog: int = 2048,
        tls: ssl.SSLContext | None = None,
        shared: bool = False,
    ) -> int:
        """Listen; answers the port, which the system chooses where 0 was given. `shared`: other
        processes listen there too."""
        loop = asyncio.get_running_loop()
        self.now = loop.time()
        server = await loop.create_server(
            self._connection,
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
        """Take no new connections; those that speak HTTP end with their answer."""
        for server in self._servers:
            server.close()
        self._api.stop()
        self._web.stop()
        self.socket_io.handshakes.stop()
        for connection in list(self._watched):
            connection.leave()

    async def close(self) -> None:
        """End all connections, once their clients have had a moment to read what was said last and
        requests under way one to be answered."""
        for connection in self._watched:
            self._lingering.add(connection.transport)
        await self._lingering.end()

    def sweep(self, now: float | None = None) -> None:
        """Called every second: end connections that are past their deadline. `now` is a time of
        the event loop, which is asked without it."""
        self.now = asyncio.get_running_loop().time() if now is None else now
        for connection in [c for c in self._watched if c.deadline <= self.now]:
            connection.time_out()
        self.socket_io.sweep()

    def _connection(self) -> HttpConnection:
        if self._access_log:
            return LoggedConnection(self, self._http, self, self._proxies)
        return HttpConnection(self, self._http, self)

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

    def handle(self, request: Request, exchange: Exchange) -> None:
        connection = exchange.connection
        request.address = connection.peer
        if self._proxies.any:
            request.address = self._client_of(request, connection)[0]
        try:
            if not self._api.handle_again(request, exchange):
                self._dispatch(request, exchange)
        except KeysNeeded as needed:
            exchange.run(self._dispatch_later(request, exchange, needed))

    async def _dispatch_later(
        self, request: Request, exchange: Exchange, needed: KeysNeeded
    ) -> None:
        """The caller's token is of a foreign issuer, whose keys must be fetched first."""
        await self._node.tokens.fetch_keys(needed)
        self.handle(request, exchange)

    def _dispatch(self, request: Request, exchange: Exchange) -> None:
        self._check_host(request)
        target = parse_target(request.url)
        segments = target.segments
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
            exchange.extra_headers = self._check_origin(request, origin, hub_name)
            if request.method == b"OPTIONS":
                self._answer_preflight(exchange)
                return
        if in_hub and segments[3] in _API:
            self._api.handle(request, target, exchange)
        elif self._admin is not None and _for_administration(segments):
            self._admin.handle(request, exchange)
        elif self._dashboard is not None and segments[:1] == (dashboard.SEGMENT,):
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
            raise UpgradeRequired("connect here with WebSocket")
        else:
            raise no_path(request)

    def _client_of(self, request: Request, connection: Asking) -> tuple[str, str]:
        """Address and scheme of who asks."""
        encrypted = connection.transport.get_extra_info("sslcontext") is not None
        return self._proxies.client_of(connection.peer, request.headers, encrypted)

    def _scheme(self, request: Request, exchange: Exchange) -> str:
        return self._client_of(request, exchange.connection)[1]

    def _links(
        self,
        request: Request,
        exchange: Exchange,
        hub: Hub,
        channel: str,
        form: TopicForm = "messages",
    ) -> str:
        scheme = self._scheme(request, exchange)
        return self._web.links(request, exchange, scheme, hub, channel, form)

    def _serve_page(self, request: Request, segments: Sequence[str], exchange: Exchange) -> None:
        page = self._pages.get("/" + "/".join(segments))
        if page is None:
            path = request.url.partition(b"?")[0].decode("latin-1")
            raise NotFound(f"there is nothing at {path}; see docs/protocol.md for the paths")
        if request.method not in (b"GET", b"HEAD"):
            raise MethodNotAllowed("this page is only for GET", ("GET", "HEAD"))
        answer = page(request)
        if isinstance(answer, tuple):
            status, content_type, body = answer
            exchange.answer(status, body, content_type)
        else:
            exchange.run(self._serve_later(answer, exchange))

    @staticmethod
    async def _serve_later(page: Awaitable[tuple[int, str, bytes]], exchange: Exchange) -> None:
        status, content_type, body = await page
        exchange.answer(status, body, content_type)

    # -- origins --------------------------------------------------------------------------------

    def _check_host(self, request: Request) -> None:
        """Raises `OriginRefused`."""
        if self._developer and not is_loopback(request.header(b"host")):
            raise OriginRefused(
                f"the host {request.header(b'host')!r} is not this machine; developer mode serves "
                "only localhost"
            )

    def _check_origin(self, request: Request, origin: bytes, hub_name: str | None) -> bytes:
        """The CORS headers for an allowed origin. Raises `OriginRefused`."""
        text = origin.decode("latin-1")
        if not origin_allowed(text, request.header(b"host"), self._origins_of(hub_name)):
            raise OriginRefused(
                f"pages from {text!r} may not use this hub; add it to allowedOrigins"
            )
        return (
            b"Access-Control-Allow-Origin: %b\r\nVary: Origin\r\n"
            b"Access-Control-Expose-Headers: Retry-After, ETag, Link\r\n" % origin
        )

    def _origins_of(self, hub_name: str | None) -> Sequence[str]:
        if hub_name is not None:
            try:
                own = self._node.hub(hub_name).configuration.settings.allowed_origins
            except (*HUB_AWAY, InvalidName):
                own = ()
            if own:
                return own
        return self._settings.allowed_origins

    @staticmethod
    def _answer_preflight(exchange: Exchange) -> None:
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

    def upgrade(self, request: Request, connection: HttpConnection, rest: bytes) -> None:
        request.address = self._client_of(request, connection)[0]
        self._check_host(request)
        target = parse_target(request.url)
        segments = target.segments
        if self._for_socket_io(segments):
            self.socket_io.connect(request, segments, connection, rest)
            return
        if self._dashboard is not None and segments == (dashboard.SEGMENT, "socket"):
            checked_key(request)
            enter = self._dashboard.watching(request)
            self._live.open_board(request, connection, rest, enter)
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
            connection.spawn(self._upgrade_later(request, connection, rest, needed))
            return
        if echo:
            self._live.open_echo(request, connection, rest)
        else:
            self._live.open_socket(request, target, connection, rest)

    def _for_socket_io(self, segments: Sequence[str]) -> bool:
        return self.socket_io.enabled and segments[:2] == PATH

    def _keys_needed(self, request: Request, target: Target) -> KeysNeeded | None:
        """What must be fetched before the handshake can go on. Everything else that speaks
        against the client is said after it."""
        try:
            hub = self._node.hub(target.segments[2])
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
        self, request: Request, connection: HttpConnection, rest: bytes, needed: KeysNeeded
    ) -> None:
        await self._node.tokens.fetch_keys(needed)
        rest += connection.take_rest()
        connection.resume_reading()
        try:
            self.upgrade(request, connection, rest)
        except HubbubError as error:
            connection.refuse(error)


_ADMINISTERED = (
    ("token",),
    ("push-tokens",),
    ("push-subscriptions",),
    ("push",),
    ("peer-subscriptions",),
)
"""What of a hub's own paths the table of routes serves, too."""


def _for_administration(segments: Sequence[str]) -> bool:
    """Whether the table of routes serves the path (`gateways.admin.table`)."""
    if segments[:2] == ("v1", "admin") or segments == ("openapi.json",):
        return True
    return segments[:2] == ("v1", "hubs") and segments[3:4] in _ADMINISTERED


def tls_context(certificate: str, key: str) -> ssl.SSLContext:
    """TLS 1.2 and newer, with the system's good defaults."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    return context
