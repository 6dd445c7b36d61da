"""Long-lived connections: WebSocket and server-sent events, from admission to their session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from hubbub.domain.errors import BadRequest, HubbubError, MethodNotAllowed, Overloaded
from hubbub.domain.filters.filters import Filters
from hubbub.domain.holdings import Holdings
from hubbub.domain.limits import TokenBucket
from hubbub.domain.patterns import is_pattern
from hubbub.domain.permissions import Identity
from hubbub.domain.requests import SubscribeItem
from hubbub.engine.hub import Hub
from hubbub.engine.node import Node
from hubbub.engine.sessions.session import Session
from hubbub.gateways.calls import flag
from hubbub.gateways.content_headers import passive
from hubbub.gateways.credentials import identify, offered_subprotocols, require_identity
from hubbub.gateways.encoders import WebSocketCodec, encoder_for
from hubbub.gateways.exchange import HttpExchange
from hubbub.gateways.filters import filters_of
from hubbub.gateways.handshake import (
    checked_key,
    negotiate_codec,
    negotiate_plain_codec,
    note_header,
    switching,
)
from hubbub.gateways.http import ReceivedRequest, Target
from hubbub.gateways.http_connection import HttpConnection
from hubbub.gateways.outlet import Lingering, Outlet, Talk
from hubbub.gateways.settings import ConnectionSettings, ListenerSettings
from hubbub.gateways.sse import (
    SseConnection,
    channel_requests,
    encoder_of,
    follow,
    read_presence,
    shown,
)
from hubbub.gateways.turns import Turns
from hubbub.gateways.websocket import EchoConnection, WebSocketConnection
from hubbub.protocols.sse import retry
from hubbub.protocols.websocket import Deflate, FrameReader

C = TypeVar("C", bound=Outlet)
_CROWDED_SECONDS = 2.0
"""How long after a refused connection clients are told that the server is overloaded."""
_ECHO_BYTES = 16 * 1024 * 1024
_SSE_HEAD = (
    f"HTTP/1.1 200 OK\r\n{passive('text/event-stream')}Cache-Control: no-cache\r\n"
    "X-Accel-Buffering: no\r\nConnection: close\r\n"
).encode()


class LiveDoor:
    """Takes connections over from HTTP and opens their sessions."""

    def __init__(
        self,
        node: Node,
        listener: ListenerSettings,
        connection: ConnectionSettings,
        holdings: Holdings,
        lingering: Lingering,
        turns: Turns,
    ) -> None:
        self._node = node
        self._turns = turns
        self._listener = listener
        self._ws, self._sse = connection.ws, connection.sse
        self._holdings = holdings
        self._lingering = lingering
        self._admission: TokenBucket | None = None
        self._crowded_until = 0.0

    def admit(self, address: str) -> None:
        """Limits the rate of new connections; the others must retry later. Raises `Overloaded`,
        `RateLimited`."""
        self._node.throttle.connect(address)
        most = self._listener.max_connections
        if self._node.session_count >= most:
            raise Overloaded(f"all {most} places are taken; try again later")
        now = self._node.clock.monotonic()
        if self._admission is None:
            rate = self._listener.connections_per_second
            self._admission = TokenBucket(rate, rate, now)
        if not self._admission.take(1, now):
            self._crowded_until = now + _CROWDED_SECONDS
            raise Overloaded("too many connect at once; try again in a second")

    def check_admission(self, address: str) -> None:
        """Reports whether connections were refused recently, for clients whose WebSocket failed:
        browsers hide the reason. Raises `Overloaded`, `RateLimited`."""
        self._node.throttle.check_connect(address)
        if self._node.session_count >= self._listener.max_connections:
            raise Overloaded("all places are taken; try again later")
        if self._node.clock.monotonic() < self._crowded_until:
            raise Overloaded("too many connect at once; try again in a second")

    def open_socket(
        self, request: ReceivedRequest, target: Target, connection: HttpConnection, rest: bytes
    ) -> None:
        """Completes the handshake; `rest` followed it."""
        codec = negotiate_codec(request, target.segments[2])
        note = self._note(target.segments[2], request.address)
        socket = self._shake_hands(request, connection, codec, note)
        self._begin(request, target, socket)
        if rest:
            socket.data_received(rest)

    def open_board(
        self,
        request: ReceivedRequest,
        connection: HttpConnection,
        rest: bytes,
        enter: Callable[[WebSocketConnection], Talk],
    ) -> None:
        """Opens a dashboard's connection like `open`, with a session created by `enter`."""
        socket = self._shake_hands(request, connection, negotiate_plain_codec(request))
        try:
            socket.session = enter(socket)
        except HubbubError as error:
            socket.disconnect(error)
        if rest:
            socket.data_received(rest)

    def _shake_hands(
        self,
        request: ReceivedRequest,
        connection: HttpConnection,
        codec: WebSocketCodec,
        headers: bytes = b"",
    ) -> WebSocketConnection:
        key = checked_key(request)
        self.admit(request.address)
        deflate, extension = self._negotiate_deflate(request)
        chosen = codec.subprotocol if codec.subprotocol in offered_subprotocols(request) else None
        connection.transport.write(switching(key, chosen, extension, headers))
        socket = WebSocketConnection(
            connection.transport,
            encoder_for(codec, deflate),
            self._ws.max_message_bytes,
            self._ws.send_buffer_bytes,
            self._turns,
            request.address,
        )
        socket.count_in(self._holdings, self._lingering, request.address)
        connection.hand_over(socket)
        return socket

    def open_echo(self, request: ReceivedRequest, connection: HttpConnection, rest: bytes) -> None:
        """A socket that echoes what it receives, for conformance suites."""
        key = checked_key(request)
        self.admit(request.address)
        deflate, extension = self._negotiate_deflate(request)
        connection.transport.write(switching(key, None, extension))
        reader = FrameReader(_ECHO_BYTES, deflate)
        connection.hand_over(echoing := EchoConnection(connection.transport, reader))
        echoing.data_received(rest)

    def _note(self, name: str, address: str) -> bytes:
        try:
            return note_header(self._node.note_about(self._node.visit(name, address)))
        except HubbubError:
            return b""

    def _begin(self, request: ReceivedRequest, target: Target, socket: WebSocketConnection) -> None:
        """After this, the client can read why it is refused; browsers hide errors of the
        handshake."""
        try:
            hub = self._node.visit(target.segments[2], request.address)
            identity = identify(request, target, hub, self._node)
            session = socket.session = self._node.open(hub, socket, identity, request.address)
            self._node.welcome(session)
        except HubbubError as error:
            socket.disconnect(error)

    def _negotiate_deflate(self, request: ReceivedRequest) -> tuple[Deflate | None, str | None]:
        offer = request.header(b"sec-websocket-extensions")
        agreed = Deflate.negotiate(offer) if offer and self._ws.compression else None
        return agreed if agreed is not None else (None, None)

    def open_stream(self, request: ReceivedRequest, target: Target, exchange: HttpExchange) -> None:
        if request.method != b"GET":
            raise MethodNotAllowed("an event stream is opened with GET", ("GET",))
        channels = [*target.all("channel"), *target.all("pattern")]
        if not channels and not flag(target.first("empty"), "empty"):
            raise BadRequest(
                "name at least one channel or pattern: ?channel=…&channel=…, ?pattern=room:*"
            )
        hub = self._node.visit(target.segments[2], request.address)
        exchange.extra_headers += note_header(self._node.note_about(hub))
        identity = require_identity(request, target, hub, self._node)
        last_id = request.header(b"last-event-id") or target.first("lastEventID")
        tokens = target.all("channelToken")
        presence = read_presence(target.first("presence"))
        wanted = channel_requests(channels, last_id)
        if tokens or presence is not None:
            wanted = shown(wanted, tokens, presence)
        filters = filters_of(target)
        # As a status, which ends a browser's attempts; within a stream it would try again.
        if channels and not tokens:
            self._node.queries.check_any(hub, identity, channels)
        self.admit(request.address)
        open_now = partial(
            self._begin_stream, request, identity, exchange, channels, wanted, filters
        )
        if channels and all(map(is_pattern, channels)):
            exchange.run(self._begin_matching(hub.name, request.address, channels, open_now))
        else:
            open_now(hub)

    async def _begin_matching(
        self,
        name: str,
        address: str,
        patterns: Sequence[str],
        open_now: Callable[[Hub], None],
    ) -> None:
        """The owners of channels decide whether the patterns match too many."""
        hub = self._node.visit(name, address)
        await self._node.subscriptions.patterns.check_any(hub, patterns)
        open_now(self._node.visit(name, address))

    def _begin_stream(
        self,
        request: ReceivedRequest,
        identity: Identity,
        exchange: HttpExchange,
        channels: Sequence[str],
        wanted: Sequence[SubscribeItem],
        filters: Filters,
        hub: Hub,
    ) -> None:
        def make(transport: asyncio.Transport, buffer_bytes: int) -> SseConnection:
            encoder = encoder_of(channels, self._node.clock.now())
            stream = SseConnection(transport, encoder, buffer_bytes)
            head = _SSE_HEAD + exchange.extra_headers + b"\r\n"
            stream.send(head + retry(self._sse.retry))
            return stream

        def begin(stream: SseConnection, session: Session) -> None:
            session.filters = filters
            session.run(follow(self._node, stream, session, wanted))

        self._take_over(request, exchange, hub, identity, make, begin)

    def begin_stream(
        self,
        request: ReceivedRequest,
        exchange: HttpExchange,
        hub: Hub,
        identity: Identity,
        make: Callable[[asyncio.Transport, int], C],
        begin: Callable[[C, Session], None],
    ) -> None:
        """See `calls.BeginStream`."""
        self.admit(request.address)
        self._take_over(request, exchange, hub, identity, make, begin)

    def _take_over(
        self,
        request: ReceivedRequest,
        exchange: HttpExchange,
        hub: Hub,
        identity: Identity,
        make: Callable[[asyncio.Transport, int], C],
        begin: Callable[[C, Session], None],
    ) -> None:
        http = exchange.connection
        http.flush()
        stream = make(http.transport, self._sse.send_buffer_bytes)
        stream.count_in(self._holdings, self._lingering, request.address)
        http.hand_over(stream)
        try:
            session = stream.session = self._node.open(hub, stream, identity, request.address)
            begin(stream, session)
        except HubbubError as error:
            stream.disconnect(error)
