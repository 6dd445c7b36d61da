"""Requests over HTTP/2, for services that speak nothing else: `hubbub.ports.outgoing` says what is
promised. One connection for each hub and server, shared by the hub's requests."""

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
"""For a request that servers leave unprocessed, because their connection is about to end. Many: a
hundred requests that share a connection which takes seven have to wait for the fifteenth."""

Key = tuple[str, str, int, bool, Reach]


class Http2Out:
    """Implements `hubbub.ports.outgoing.HttpSender`."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        """`tls`: whom to trust, with ALPN `h2`; None: those that the system trusts."""
        self._dialer = Dialer(tls, ("h2",))
        self._connections: dict[Key, Http2Connection] = {}
        self._leaving: set[Http2Connection] = set()
        """Those that get no more requests, and still have some under way."""
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
        """The connection for new requests, made once for all who wait. Raises `SendFailed`."""
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
        """Ends what is under way, too."""
        self._closed = True
        for connection in (*self._connections.values(), *self._leaving):
            connection.close()
        await self._dialer.close()
