"""HTTP/2 requests, for services that speak nothing else, per the contract in
`hubbub.ports.outgoing`. Each hub has one connection per server, shared by its requests."""

from __future__ import annotations

import asyncio
import ssl
from time import perf_counter
from typing import TYPE_CHECKING

from hubbub.connectors.dialing import Dialer, Unprocessed
from hubbub.domain.callbacks import LONGEST_URL, CallbackParts, Reach, check_callback
from hubbub.ports.outgoing import HttpRequest, HttpResponse, SendFailed

if TYPE_CHECKING:
    from hubbub.connectors.http2_connection import Http2Connection

_TRIES = 32
"""How often a request is repeated that servers leave unprocessed because their connection is
closing. Many: with seven requests per connection, a hundred concurrent ones need the fifteenth."""

Key = tuple[str, str, int, bool, Reach]


class Http2Out:
    """Implements `hubbub.ports.outgoing.HttpSender`."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        """`tls`: the TLS context with ALPN `h2`; None: the system's authorities."""
        self._dialer = Dialer(tls, ("h2",))
        self._connections: dict[Key, Http2Connection] = {}
        self._leaving: set[Http2Connection] = set()
        """Connections that get no more requests but still have some in flight."""
        self._dialing: dict[Key, asyncio.Lock] = {}
        self._closed = False

    async def check(self, hub: str, url: str, reach: Reach = "public") -> None:
        await self._dialer.check(hub, url, reach)

    async def send(self, request: HttpRequest, reach: Reach = "public") -> HttpResponse:
        started = perf_counter()
        parts = check_callback(request.url, LONGEST_URL)
        key = (request.hub, parts.host, parts.port, parts.tls, reach)
        for _ in range(_TRIES):
            left = request.timeout_seconds - (perf_counter() - started)
            connection = await self._usable(key, parts, reach, left)
            left = request.timeout_seconds - (perf_counter() - started)
            try:
                return await connection.request(request, parts, max(0.0, left), started)
            except Unprocessed:
                continue
        raise SendFailed("closed", f"{parts.host!r} ends its connections before it answers")

    async def _usable(
        self, key: Key, parts: CallbackParts, reach: Reach, seconds: float
    ) -> Http2Connection:
        """The connection for new requests, opened once for all waiting callers. Raises
        `SendFailed`."""
        found = self._connections.get(key)
        if found is not None and found.usable:
            return found
        lock = self._dialing.setdefault(key, asyncio.Lock())
        try:
            async with asyncio.timeout(max(0.0, seconds)), lock:
                found = self._connections.get(key)
                if found is not None and found.usable:
                    return found
                if self._closed:
                    raise SendFailed("closed", "the hub is stopping")
                return await self._dial(key, parts, reach, seconds)
        except TimeoutError:
            raise SendFailed("timeout", f"{parts.host!r} did not take the connection") from None
        finally:
            if not lock.locked():
                self._dialing.pop(key, None)

    async def _dial(
        self, key: Key, parts: CallbackParts, reach: Reach, seconds: float
    ) -> Http2Connection:
        from hubbub.connectors.http2_connection import Http2Connection  # few hubs need h2

        loop = asyncio.get_running_loop()

        def make() -> Http2Connection:
            return Http2Connection(loop, self._ended)

        connection = await self._dialer.connect(make, key[0], parts, reach, seconds)
        try:
            await connection.settled()
        except BaseException:
            connection.close()
            raise
        before = self._connections.get(key)
        if before is not None and not before.closed:
            self._leaving.add(before)
        self._connections[key] = connection
        return connection

    def _ended(self, connection: Http2Connection) -> None:
        self._leaving.discard(connection)
        for key, known in list(self._connections.items()):
            if known is connection:
                del self._connections[key]

    async def close(self) -> None:
        """Cancels requests in flight, too."""
        self._closed = True
        for connection in (*self._connections.values(), *self._leaving):
            connection.close()
        await self._dialer.close()
