"""The access log: a line for each HTTP request, without its query, which may hold a token."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from hubbub.domain.errors import HubbubError
from hubbub.gateways.http import HttpLimits, ReceivedRequest
from hubbub.gateways.http_connection import ConnectionWatcher, Handler, HttpConnection
from hubbub.gateways.proxies import TrustedProxies

logger = logging.getLogger("hubbub.access")


class LoggedConnection(HttpConnection):
    """A connection that logs its requests and their responses."""

    __slots__ = ("_began", "_proxies", "_request")

    def __init__(
        self,
        handler: Handler,
        limits: HttpLimits,
        watcher: ConnectionWatcher,
        proxies: TrustedProxies,
    ) -> None:
        super().__init__(handler, limits, watcher)
        self._proxies = proxies
        self._request: ReceivedRequest | None = None
        self._began = 0.0

    def _handle(self, request: ReceivedRequest) -> None:
        self._request = request
        self._began = asyncio.get_running_loop().time()
        super()._handle(request)

    def finish(self, data: bytes, keep_alive: bool) -> None:
        self._log(int(data[9:12]), len(data))
        super().finish(data, keep_alive)

    def refuse(self, error: HubbubError) -> None:
        if not self.closed:
            self._log(error.http_status, 0, error=error.code)
            super().refuse(error)

    def hand_over(self, protocol: asyncio.Protocol) -> None:
        """Called for WebSocket and server-sent events: the request is answered, the connection
        stays open."""
        self._log(200 if self._request is not None else 101, 0)
        super().hand_over(protocol)

    def _log(self, status: int, size: int, **more: Any) -> None:
        request, self._request = self._request, None
        asked = self._reader if request is None else request
        headers, url, method = asked.headers, asked.url, asked.method
        peer = self.transport.get_extra_info("peername")
        encrypted = self.transport.get_extra_info("ssl_object") is not None
        client, scheme = self._proxies.client_of(peer[0] if peer else "", headers, encrypted)
        fields = {
            "client": client,
            "scheme": scheme,
            "method": method.decode("latin-1"),
            "path": url.partition(b"?")[0].decode("latin-1"),
            "status": status,
            "bytes": size,
            **more,
        }
        if request is not None:
            elapsed = asyncio.get_running_loop().time() - self._began
            fields["milliseconds"] = round(elapsed * 1000, 3)
        logger.info("request", extra={"fields": fields})
