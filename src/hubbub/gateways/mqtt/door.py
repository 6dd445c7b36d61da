"""The MQTT door: its listeners, and its connections over WebSocket."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from functools import partial
from typing import Final, cast

import msgspec

from hubbub.domain.errors import BadRequest, GoingAway, Overloaded
from hubbub.engine.mqtt.settings import Mqtt, MqttListener
from hubbub.engine.node import Node
from hubbub.gateways.credentials import offered_subprotocols
from hubbub.gateways.handshake import checked_key, switching
from hubbub.gateways.http import ReceivedRequest
from hubbub.gateways.http_connection import HttpConnection
from hubbub.gateways.listener import Listener, tls_context
from hubbub.gateways.mqtt.connection import MqttConnection
from hubbub.gateways.mqtt.encoders import SharedEncoders
from hubbub.gateways.mqtt.entrance import Entrance
from hubbub.gateways.settings import ListenerSettings
from hubbub.gateways.sockets import bound_unsent
from hubbub.protocols.mqtt.packets import Connect
from hubbub.tasks import TaskSet

logger = logging.getLogger(__name__)

SUBPROTOCOL: Final = "mqtt"
WORD: Final = "mqtt"
"""The end of the path of its WebSockets."""
_SWEEP_SECONDS = 1.0


class OpenPort(msgspec.Struct, frozen=True):
    """A listener that was opened."""

    listener: MqttListener
    port: int


class MqttDoor:
    def __init__(
        self,
        node: Node,
        settings: Mqtt,
        listener: ListenerSettings,
        main: Listener,
        keeps_sessions: bool,
        may_be_taken: bool = False,
    ) -> None:
        """`main` is the listener whose limits on connections and memory hold for this door as well.
        `keeps_sessions`: this process is the only one of the hub, so that it knows all of a
        device's connections. `may_be_taken`: a port that another process has is a warning, not an
        error."""
        self._node = node
        self._settings = settings
        self._listener = listener
        self._main = main
        self._may_be_taken = may_be_taken
        self._encoders = SharedEncoders(node.clock, settings.metadata)
        self._entrance = Entrance(node, settings, main.admit, keeps_sessions)
        self._connections: set[MqttConnection] = set()
        self._deadlines: dict[MqttConnection, float] = {}
        """Connections without a session, in order."""
        self._servers: list[asyncio.Server] = []
        self._timer: asyncio.TimerHandle | None = None
        self._tasks = TaskSet()
        self.open_ports: list[OpenPort] = []

    # -- life -----------------------------------------------------------------------------------

    async def start(self, shared: bool = False) -> None:
        """Raises `OSError`. `shared`: other processes listen on the same ports."""
        for listener in self._settings.listeners:
            try:
                port = await self._listen(listener, shared)
            except OSError as error:
                if not self._may_be_taken:
                    await self.stop()
                    raise
                logger.warning("MQTT is not served on port %d: %s", listener.port, error)
            else:
                self.open_ports.append(OpenPort(listener, port))
        self._sweep()

    async def _listen(self, listener: MqttListener, shared: bool) -> int:
        tls: ssl.SSLContext | None = None
        if listener.tls is not None:
            tls = tls_context(str(listener.tls.certificate), str(listener.tls.key))
        server = await asyncio.get_running_loop().create_server(
            partial(_Arrival, partial(self._arrived, listener.hub)),
            listener.host,
            listener.port,
            backlog=self._listener.backlog,
            ssl=tls,
            reuse_address=True,
            reuse_port=shared or None,
        )
        bound_unsent(server)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Accepts no new clients. Sessions end with those of the node."""
        for server in self._servers:
            server.close()
        if self._timer is not None:
            self._timer.cancel()
        for connection in list(self._deadlines):
            connection.disconnect(GoingAway("the server is shutting down; connect again"))
        self._tasks.cancel()

    def _sweep(self) -> None:
        """Every second: connections without a CONNECT in time, and silent clients."""
        self._timer = asyncio.get_running_loop().call_later(_SWEEP_SECONDS, self._sweep)
        now = self._node.clock.monotonic()
        for connection, deadline in list(self._deadlines.items()):
            if deadline > now:
                break
            connection.disconnect(Overloaded("no CONNECT in time"))
        for connection in list(self._connections):
            connection.check_alive(now)

    # -- connections ----------------------------------------------------------------------------

    def _arrived(self, hub: str | None, transport: asyncio.Transport) -> MqttConnection | None:
        """None if there is no place left."""
        if self._node.session_count + len(self._deadlines) >= self._listener.max_connections:
            transport.abort()
            return None
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if isinstance(peer, tuple) else ""
        return self._begin(transport, address, hub, websocket=False)

    def _begin(
        self, transport: asyncio.Transport, address: str, hub: str | None, websocket: bool
    ) -> MqttConnection:
        connection = MqttConnection(
            transport,
            self._settings,
            self._main.turns,
            self._node.clock,
            self._encoders,
            address,
            partial(self._connecting, hub),
            self._closed,
            websocket,
        )
        self._main.count_in(connection, address)
        self._connections.add(connection)
        seconds = self._listener.header_timeout
        self._deadlines[connection] = self._node.clock.monotonic() + seconds
        return connection

    def _connecting(self, hub: str | None, connection: MqttConnection, packet: Connect) -> None:
        self._tasks.start(self._enter(connection, packet, hub))

    async def _enter(self, connection: MqttConnection, packet: Connect, hub: str | None) -> None:
        await self._entrance.enter(connection, packet, hub)
        self._deadlines.pop(connection, None)

    def _closed(self, connection: MqttConnection) -> None:
        self._connections.discard(connection)
        self._deadlines.pop(connection, None)

    # -- WebSocket ------------------------------------------------------------------------------

    def open_socket(
        self, request: ReceivedRequest, hub: str | None, connection: HttpConnection, rest: bytes
    ) -> None:
        """Completes the handshake; `rest` followed it. Raises `BadRequest`."""
        key = checked_key(request)
        if SUBPROTOCOL not in offered_subprotocols(request):
            raise BadRequest(f"offer the subprotocol {SUBPROTOCOL!r} (Sec-WebSocket-Protocol)")
        connection.transport.write(switching(key, SUBPROTOCOL, None))
        socket = self._begin(connection.transport, request.address, hub, websocket=True)
        connection.hand_over(socket)
        if hub is None and b"origin" in request.headers:
            socket.check_hub = partial(self._main.check_origin, request)
        if rest:
            socket.data_received(rest)


class _Arrival(asyncio.Protocol):
    """Replaced by a connection as soon as there is a transport."""

    def __init__(self, arrived: Callable[[asyncio.Transport], MqttConnection | None]) -> None:
        self._arrived = arrived

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        accepted = cast(asyncio.Transport, transport)
        connection = self._arrived(accepted)
        if connection is not None:
            accepted.set_protocol(connection)
