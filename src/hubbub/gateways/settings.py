"""The keys of the listener and of the connections to it; `server.settings.keys` says how to read
them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

GIBIBYTE = 1 << 30


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    certificate: Path | None = None
    """PEM file with the certificate chain; needs `tls.key` too."""
    key: Path | None = None
    """PEM file with the certificate's key."""


class DashboardOrigin(msgspec.Struct, frozen=True, kw_only=True):
    host: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    """The host, optionally with a port, at which browsers reach only the dashboard:
    `console.example.org`. Without it the dashboard is at every host of the hub."""
    port: Annotated[int, Meta(ge=1, le=65_535)] | None = None
    """TCP port that serves only the dashboard; `listener.port` then does not serve it."""


class ListenerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The one port for WebSocket, Server-Sent Events and HTTP."""

    host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    """Address to listen on; `0.0.0.0` is every interface."""
    port: Annotated[int, Meta(ge=0, le=65_535)] = 8000
    """TCP port; 0 lets the system choose one."""
    tls: Tls = Tls()
    trusted_proxies: tuple[str, ...] = ()
    """Addresses or networks (CIDR) whose `X-Forwarded-For` and `X-Forwarded-Proto` are trusted."""
    allowed_origins: tuple[str, ...] = ()
    """Origins of web pages that may use hubs without a list of their own: `https://example.org`,
    `http://localhost:*` (any port), `null` (pages from files), or `*` (every page). Clients that
    send no `Origin` are not affected."""
    dashboard: DashboardOrigin = DashboardOrigin()
    backlog: Annotated[int, Meta(ge=1, le=65_535)] = 2048
    """Maximum number of connections that wait to be accepted."""
    max_connections: Annotated[int, Meta(ge=1, le=1_000_000)] = 50_000
    """Maximum number of open connections; others get an error."""
    connections_per_second: Annotated[int, Meta(ge=0, le=1_000_000)] = 2000
    """New sessions admitted per second, so that a storm of reconnects does not starve existing
    sessions; 0 admits all."""
    header_timeout: Annotated[float, Meta(ge=0.1, le=300)] = 10.0
    """Timeout for receiving a request head."""
    max_header_bytes: Annotated[int, Meta(ge=1024, le=1 << 20)] = 16 * 1024
    """Maximum size of a request head."""
    max_buffered_bytes: Annotated[int, Meta(ge=1 << 20, le=64 * GIBIBYTE)] = 128 << 20
    """Bytes at most, of all connections of a process, of requests and messages that have not ended
    and of answers and deliveries that were not read yet; when there are more, connections of the
    address that has most are ended, the largest first. Two of the largest always fit."""
    shutdown_timeout: Annotated[float, Meta(ge=0, le=3600)] = 10.0
    """Time to drain connections before the hub stops."""


class WebSocket(msgspec.Struct, frozen=True, kw_only=True):
    ping_interval: Annotated[float, Meta(ge=1, le=3600)] = 25.0
    """Silence after which the hub pings a client."""
    pong_timeout: Annotated[float, Meta(ge=0.5, le=3600)] = 10.0
    """Time to answer a ping before the connection counts as dead; at most `pingInterval`."""
    max_message_bytes: Annotated[int, Meta(ge=1024, le=GIBIBYTE)] = 256 * 1024
    """Size of a client's message at most."""
    send_buffer_bytes: Annotated[int, Meta(ge=4096, le=GIBIBYTE)] = 1 << 20
    """Bytes that wait for a client at most; one that reads too slowly is cut off. At least twice
    `maxMessageBytes`."""
    compression: bool = False
    """Offer permessage-deflate (less traffic, more CPU)."""


class ServerSentEvents(msgspec.Struct, frozen=True, kw_only=True):
    heartbeat_interval: Annotated[float, Meta(ge=1, le=3600)] = 25.0
    """Time between heartbeat comments."""
    send_buffer_bytes: Annotated[int, Meta(ge=4096, le=GIBIBYTE)] = 1 << 20
    """Bytes that wait for a client at most; one that reads too slowly is cut off. At least twice
    `connection.ws.maxMessageBytes`."""
    retry: Annotated[int, Meta(ge=0, le=3_600_000)] = 2000
    """Milliseconds after which a browser reconnects; sent as `retry:`."""


class Http(msgspec.Struct, frozen=True, kw_only=True):
    max_body_bytes: Annotated[int, Meta(ge=1024, le=GIBIBYTE)] = 1 << 20
    """Size of a request body at most."""


class SocketIo(msgspec.Struct, frozen=True, kw_only=True):
    enabled: bool = False
    """Serve [the JavaScript client of 2012](commands.md#the-javascript-client-of-2012) at
    `/socket.io/1/`, over WebSocket."""
    handshake_timeout: Annotated[float, Meta(ge=0.1, le=300)] = 10.0
    """Time from the handshake to `hConnect` or `attach`."""
    max_handshakes: Annotated[int, Meta(ge=1, le=1_000_000)] = 1000
    """Clients at most that have not come so far; beyond that, the address with most of them loses
    its oldest one."""


class ConnectionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The ways in: WebSocket (`ws`), Server-Sent Events (`sse`), plain HTTP (`http`) and socket.io
    (`socketIo`)."""

    ws: WebSocket = WebSocket()
    sse: ServerSentEvents = ServerSentEvents()
    http: Http = Http()
    socket_io: SocketIo = SocketIo()
