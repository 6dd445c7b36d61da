"""HTTP requests to tenants' servers, per the contract in `hubbub.ports.outgoing`.

Connections are kept alive for a while and reused, only by the same hub and the same permitted
addresses. docs/dependencies.md says why no library is used.
"""

from __future__ import annotations

import asyncio
import ssl
from time import perf_counter

from hubbub.connectors.dialing import Dialer
from hubbub.connectors.http_out_connection import OutgoingConnection
from hubbub.domain.callbacks import LONGEST_URL, CallbackParts, Reach, check_callback
from hubbub.domain.shares import FairShare
from hubbub.ports.outgoing import HttpRequest, HttpResponse, SendFailed

_IDLE_SECONDS = 20.0
_SWEEP_SECONDS = 5.0
_MOST_IDLE = 4096
_METHODS_WITH_BODY = ("POST", "PUT", "PATCH")

PoolKey = tuple[str, str, int, bool, Reach]


class HttpOut:
    """Implements `hubbub.ports.outgoing.HttpSender`."""

    def __init__(self, tls: ssl.SSLContext | None = None, max_idle: int = _MOST_IDLE) -> None:
        """`tls`: the TLS context; None: the system's authorities."""
        self._dialer = Dialer(tls)
        self._idle: dict[PoolKey, list[OutgoingConnection]] = {}
        self._kept = FairShare(max_idle)
        self._open: set[OutgoingConnection] = set()
        """Connections with a request in flight."""
        self._sweeping: asyncio.TimerHandle | None = None
        self._closed = False

    async def send(self, request: HttpRequest, reach: Reach = "public") -> HttpResponse:
        started = perf_counter()
        parts = check_callback(request.url, LONGEST_URL)
        head = _head(request, parts)
        key = (request.hub, parts.host, parts.port, parts.tls, reach)
        connection = self._take(key)
        if connection is not None:
            try:
                return await self._exchange(connection, key, request, head, started)
            except SendFailed as error:
                lost = error.word == "closed" and connection.untouched
                if not lost or not request.repeatable:
                    raise
        seconds = request.timeout_seconds - (perf_counter() - started)
        loop = asyncio.get_running_loop()
        connection = await self._dialer.connect(
            lambda: OutgoingConnection(loop), request.hub, parts, reach, seconds
        )
        return await self._exchange(connection, key, request, head, started)

    async def check(self, hub: str, url: str, reach: Reach = "public") -> None:
        await self._dialer.check(hub, url, reach)

    async def close(self) -> None:
        """Cancels requests in flight, too."""
        self._closed = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        for connections in (self._open, *self._idle.values()):
            for connection in list(connections):
                connection.close()
        self._idle.clear()
        await self._dialer.close()

    async def _exchange(
        self,
        connection: OutgoingConnection,
        key: PoolKey,
        request: HttpRequest,
        head: bytes,
        started: float,
    ) -> HttpResponse:
        if self._closed:
            connection.close()
            raise SendFailed("closed", "the hub is stopping")
        seconds = request.timeout_seconds - (perf_counter() - started)
        self._open.add(connection)
        try:
            return await connection.request(
                head, request.body, request.max_answer_bytes, seconds, started
            )
        except asyncio.CancelledError:
            connection.close()
            raise
        finally:
            self._open.discard(connection)
            self._give_back(key, connection)

    # -- the pool -------------------------------------------------------------------------------

    def _take(self, key: PoolKey) -> OutgoingConnection | None:
        connections = self._idle.get(key)
        while connections:
            connection = connections.pop()
            self._kept.give_back(key[0])
            if not connection.closed:
                return connection
        return None

    def _give_back(self, key: PoolKey, connection: OutgoingConnection) -> None:
        if not connection.usable or self._closed or not self._kept.may_take(key[0]):
            connection.close()
        else:
            loop = asyncio.get_running_loop()
            connection.idle_since = loop.time()
            self._idle.setdefault(key, []).append(connection)
            self._kept.take(key[0])
            if self._sweeping is None:
                self._sweeping = loop.call_later(_SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        """Closes connections that were unused for a while."""
        loop = asyncio.get_running_loop()
        limit = loop.time() - _IDLE_SECONDS
        for key, connections in list(self._idle.items()):
            kept = []
            for connection in connections:
                if connection.closed or connection.idle_since <= limit:
                    connection.close()
                    self._kept.give_back(key[0])
                else:
                    kept.append(connection)
            if kept:
                self._idle[key] = kept
            else:
                del self._idle[key]
        again = bool(self._idle)
        self._sweeping = loop.call_later(_SWEEP_SECONDS, self._sweep) if again else None


def _head(request: HttpRequest, parts: CallbackParts) -> bytes:
    """Raises `SendFailed` for a header that would be read as several."""
    lines = [f"{request.method} {parts.target} HTTP/1.1\r\nHost: {parts.authority}"]
    for name, value in request.headers:
        if not value.isprintable():
            raise SendFailed("protocol", f"the header {name} holds what HTTP does not allow")
        lines.append(f"{name}: {value}")
    if request.body or request.method in _METHODS_WITH_BODY:
        lines.append(f"Content-Length: {len(request.body)}")
    lines.append("\r\n")
    return "\r\n".join(lines).encode("latin-1", "replace")
