"""The endpoint for the JavaScript client of 2012: socket.io protocol 1, over WebSocket only.

The client requests a session id over HTTP, connects with it, and names its hub in `hConnect` or
`attach`. Until then it has neither session nor hub, only a handshake; all handshakes of a process
share a limit, and each has a deadline. Then it has a session of `hubbub.hubiquitus.v1`."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from math import ceil

import msgspec

from hubbub.domain.commands.jids import parse_jid
from hubbub.domain.errors import (
    AuthenticationTimeout,
    GoingAway,
    HubbubError,
    Malformed,
    MethodNotAllowed,
    NotFound,
    Overloaded,
    UpgradeRequired,
)
from hubbub.domain.holdings import Holdings
from hubbub.domain.limits import network_of
from hubbub.domain.notices import Failed
from hubbub.domain.permissions import ANONYMOUS
from hubbub.domain.requests import UndecodableRequest
from hubbub.engine.node import Node
from hubbub.gateways.encoders import SocketIoEncoder
from hubbub.gateways.exchange import HttpExchange
from hubbub.gateways.handshake import FIRST_RID, checked_key, switching
from hubbub.gateways.http import ReceivedRequest
from hubbub.gateways.http_connection import HttpConnection
from hubbub.gateways.outlet import Lingering
from hubbub.gateways.settings import SocketIo, WebSocket
from hubbub.gateways.turns import Turns
from hubbub.gateways.websocket import WebSocketConnection
from hubbub.ports import randomness
from hubbub.protocols.hubiquitus.codec import HubiquitusCodec
from hubbub.protocols.hubiquitus.events import read_event
from hubbub.protocols.hubiquitus.socket_io import CONNECT, PacketReader, handshake_answer
from hubbub.protocols.websocket import Event, Opcode, frame

PATH = ("socket.io", "1")
_OPENING = frozenset(("hConnect", "attach"))
"""Events that name a publisher, and thereby the hub."""


class Handshake(msgspec.Struct, eq=False):
    """A client without a session: a session id, and `connection` once it has connected."""

    sid: str
    network: str
    deadline: float
    connection: SocketIoConnection | None = None


class Handshakes:
    """Handshakes in progress. Beyond the limit, the network with the most handshakes loses its
    oldest one."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._by_sid: dict[str, Handshake] = {}
        self._counts: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._by_sid)

    def add(self, handshake: Handshake) -> None:
        self._by_sid[handshake.sid] = handshake
        self._counts[handshake.network] += 1
        if len(self._by_sid) > self._most:
            ((network, _),) = self._counts.most_common(1)
            oldest = next(each for each in self._by_sid.values() if each.network == network)
            self._end(oldest, Overloaded("too many handshakes are under way; try again later"))

    def find(self, sid: str) -> Handshake | None:
        return self._by_sid.get(sid)

    def remove(self, handshake: Handshake) -> None:
        """Forgets a handshake. Idempotent."""
        if self._by_sid.pop(handshake.sid, None) is not None:
            self._counts[handshake.network] -= 1
            if not self._counts[handshake.network]:
                del self._counts[handshake.network]

    def sweep(self, now: float, seconds: float) -> None:
        while self._by_sid:
            oldest = next(iter(self._by_sid.values()))
            if oldest.deadline > now:
                return
            self._end(
                oldest, AuthenticationTimeout(f"no hConnect or attach within {seconds:g} seconds")
            )

    def stop(self) -> None:
        for handshake in list(self._by_sid.values()):
            self._end(handshake, GoingAway("the server is shutting down; connect again"))

    def _end(self, handshake: Handshake, error: HubbubError) -> None:
        self.remove(handshake)
        if handshake.connection is not None:
            handshake.connection.disconnect(error)


class SocketIoConnection(WebSocketConnection):
    """A WebSocket whose frames are socket.io packets. Its session starts with the first event that
    names a publisher."""

    __slots__ = ("_began", "_handshake", "_open", "_over", "_request", "_speaks")

    def __init__(
        self,
        transport: asyncio.Transport,
        encoder: SocketIoEncoder,
        limits: WebSocket,
        turns: Turns,
        request: ReceivedRequest,
        opening: Callable[[SocketIoConnection, ReceivedRequest, str], None],
        over: Callable[[Handshake], None],
        handshake: Handshake,
    ) -> None:
        """`opening` opens a session of a hub for the connection, or raises `HubbubError`; `over` is
        called at the end of the handshake, with or without a session."""
        super().__init__(
            transport,
            encoder,
            limits.max_message_bytes,
            limits.send_buffer_bytes,
            turns,
            request.address,
        )
        self._reader = PacketReader(limits.max_message_bytes)
        self._speaks = encoder.codec
        self._request = request
        self._open = opening
        self._over = over
        self._handshake = handshake
        self._began = False

    def _handle(self, event: Event) -> int:
        if self.session is None and not self._began:
            if event.opcode is Opcode.CLOSE:
                self._answer_close(event)
                return 1
            if event.opcode is not Opcode.TEXT:
                return 1
            hub = _hub_of(event.data)
            if hub is None:
                self._refuse(event.data)
                return 1
            self._began = True
            self._over(self._handshake)
            self._speaks.hub = hub
            try:
                self._open(self, self._request, hub)
            except HubbubError as error:
                self.disconnect(error)
                return 1
        return super()._handle(event)

    def _refuse(self, text: bytes) -> None:
        """Responds with an error to an event that names no publisher."""
        for request in self._speaks.decode(text):
            if isinstance(request, UndecodableRequest):
                notice = Failed(request.error, request.req_id)
                self.send(self.encoder.pack([self.encoder.encode(notice)]))

    def connection_lost(self, exc: Exception | None) -> None:
        self._over(self._handshake)
        super().connection_lost(exc)


class SocketIoDoor:
    """Handles handshakes and the connections that follow."""

    def __init__(
        self,
        node: Node,
        settings: SocketIo,
        limits: WebSocket,
        holdings: Holdings,
        lingering: Lingering,
        turns: Turns,
        admit: Callable[[str], None],
        check_origin: Callable[[ReceivedRequest, bytes, str], bytes],
    ) -> None:
        """`admit` accepts a new connection from an address, or raises `HubbubError`; `check_origin`
        raises `OriginRefused` if the hub does not permit pages of an origin."""
        self._node = node
        self._settings = settings
        self._limits = limits
        self._holdings = holdings
        self._lingering = lingering
        self._turns = turns
        self._admit = admit
        self._check_origin = check_origin
        self.handshakes = Handshakes(settings.max_handshakes)
        engine = node.limits
        self._heartbeat = ceil(engine.ping_interval_seconds + engine.pong_timeout_seconds)
        self._close = ceil(2 * engine.ping_interval_seconds + engine.pong_timeout_seconds)

    @property
    def enabled(self) -> bool:
        return self._settings.enabled

    def sweep(self) -> None:
        """Called every second: ends handshakes that exceed their deadline."""
        self.handshakes.sweep(self._node.clock.monotonic(), self._settings.handshake_timeout)

    def handle(
        self, request: ReceivedRequest, segments: Sequence[str], exchange: HttpExchange
    ) -> None:
        """Handles a request below `PATH` that is no WebSocket handshake."""
        if segments[2:] not in ((), ("",)):
            if segments[2:3] == ("websocket",) and len(segments) == 4:
                raise UpgradeRequired("connect here with WebSocket")
            raise NotFound("of the transports of socket.io only websocket is served")
        if request.method != b"GET":
            raise MethodNotAllowed("a handshake of socket.io is a GET request", ("GET",))
        origin = request.headers.get(b"origin")
        if origin is not None:
            # The page's hub is not known yet: `_open` checks the origin before there is a session.
            exchange.extra_headers = (
                b"Access-Control-Allow-Origin: %b\r\nAccess-Control-Allow-Credentials: true\r\n"
                b"Vary: Origin\r\n" % origin
            )
        self._node.throttle.connect(request.address)
        sid = randomness.token_urlsafe(24)
        deadline = self._node.clock.monotonic() + self._settings.handshake_timeout
        self.handshakes.add(Handshake(sid, network_of(request.address), deadline))
        answer = handshake_answer(sid, self._heartbeat, self._close)
        exchange.answer(200, answer, "text/plain; charset=UTF-8")

    def connect(
        self,
        request: ReceivedRequest,
        segments: Sequence[str],
        connection: HttpConnection,
        rest: bytes,
    ) -> None:
        """Completes a WebSocket handshake below `PATH`; `rest` followed it."""
        handshake = self.handshakes.find(segments[3]) if len(segments) == 4 else None
        if segments[2:3] != ("websocket",) or handshake is None or handshake.connection:
            raise NotFound(
                "the session id is unknown, used or expired; begin with GET /socket.io/1/"
            )
        key = checked_key(request)
        self._admit(request.address)
        connection.transport.write(switching(key, None, None))
        socket = SocketIoConnection(
            connection.transport,
            SocketIoEncoder(HubiquitusCodec("", randomness.token_below(FIRST_RID)), None),
            self._limits,
            self._turns,
            request,
            self._open,
            self.handshakes.remove,
            handshake,
        )
        handshake.connection = socket
        socket.count_in(self._holdings, self._lingering, request.address)
        connection.hand_over(socket)
        socket.send(frame(Opcode.TEXT, CONNECT))
        if rest:
            socket.data_received(rest)

    def _open(self, socket: SocketIoConnection, request: ReceivedRequest, name: str) -> None:
        origin = request.headers.get(b"origin")
        if origin is not None:
            self._check_origin(request, origin, name)
        hub = self._node.visit(name, request.address)
        socket.session = self._node.open(hub, socket, ANONYMOUS, request.address)


def _hub_of(text: bytes) -> str | None:
    """The hub of the publisher, if the event names one."""
    try:
        event = read_event(text)
    except Malformed:
        return None
    publisher = event.value.get("publisher") if isinstance(event.value, dict) else None
    if event.name not in _OPENING or not isinstance(publisher, str):
        return None
    jid = parse_jid(publisher)
    return None if jid is None else jid.domain
