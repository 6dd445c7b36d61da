"""The keys of the configuration that concern the network; `settings_keys` says how to read them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

GIBIBYTE = 1 << 30


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    certificate: Annotated[
        Path | None, Meta(description="PEM file with the certificate chain; needs `tls.key` too.")
    ] = None
    key: Annotated[Path | None, Meta(description="PEM file with the certificate's key.")] = None


class Listener(msgspec.Struct, frozen=True, kw_only=True):
    """The one port for WebSocket, Server-Sent Events and HTTP."""

    host: Annotated[
        str, Meta(min_length=1, description="Address to listen on; `0.0.0.0` is every interface.")
    ] = "127.0.0.1"
    port: Annotated[
        int, Meta(ge=0, le=65_535, description="TCP port; 0 lets the system choose one.")
    ] = 8000
    tls: Tls = Tls()
    trusted_proxies: Annotated[
        tuple[str, ...],
        Meta(
            description="Addresses or networks (CIDR) whose `X-Forwarded-For` and "
            "`X-Forwarded-Proto` are believed."
        ),
    ] = ()
    allowed_origins: Annotated[
        tuple[str, ...],
        Meta(
            description="Origins of web pages that may use hubs without a list of their own: "
            "`https://example.org`, `http://localhost:*` (any port), `null` (pages from files), or "
            "`*` (every page). Clients that send no `Origin` are not concerned."
        ),
    ] = ()
    backlog: Annotated[
        int, Meta(ge=1, le=65_535, description="Connections that wait to be accepted.")
    ] = 2048
    max_connections: Annotated[
        int,
        Meta(ge=1, le=1_000_000, description="Open connections at most; more get an error."),
    ] = 50_000
    connections_per_second: Annotated[
        int,
        Meta(
            ge=0,
            le=1_000_000,
            description="New sessions admitted each second, so that a storm of reconnects does not "
            "starve those who are in; 0 admits all.",
        ),
    ] = 2000
    header_timeout: Annotated[
        float, Meta(ge=0.1, le=300, description="Time for a client to send its request head.")
    ] = 10.0
    max_header_bytes: Annotated[
        int, Meta(ge=1024, le=1 << 20, description="Size of a request head at most.")
    ] = 16 * 1024
    shutdown_timeout: Annotated[
        float, Meta(ge=0, le=3600, description="Time to drain connections before the hub stops.")
    ] = 10.0


class WebSocket(msgspec.Struct, frozen=True, kw_only=True):
    ping_interval: Annotated[
        float, Meta(ge=1, le=3600, description="Silence after which the hub pings a client.")
    ] = 25.0
    pong_timeout: Annotated[
        float,
        Meta(
            ge=0.5,
            le=3600,
            description="Time to answer a ping before the connection counts as dead; at most "
            "`pingInterval`.",
        ),
    ] = 10.0
    max_message_bytes: Annotated[
        int, Meta(ge=1024, le=GIBIBYTE, description="Size of a client's message at most.")
    ] = 256 * 1024
    send_buffer_bytes: Annotated[
        int,
        Meta(
            ge=4096,
            le=GIBIBYTE,
            description="Bytes that wait for a client at most; one that reads too slowly is cut "
            "off. At least twice `maxMessageBytes`.",
        ),
    ] = 1 << 20
    compression: Annotated[
        bool, Meta(description="Offer permessage-deflate (less traffic, more CPU).")
    ] = False


class ServerSentEvents(msgspec.Struct, frozen=True, kw_only=True):
    heartbeat_interval: Annotated[
        float, Meta(ge=1, le=3600, description="Time between heartbeat comments.")
    ] = 25.0
    send_buffer_bytes: Annotated[
        int,
        Meta(
            ge=4096,
            le=GIBIBYTE,
            description="Bytes that wait for a client at most; one that reads too slowly is cut "
            "off. At least twice `connection.ws.maxMessageBytes`.",
        ),
    ] = 1 << 20
    retry: Annotated[
        int,
        Meta(
            ge=0,
            le=3_600_000,
            description="Milliseconds after which a browser reconnects; sent as `retry:`.",
        ),
    ] = 2000


class Http(msgspec.Struct, frozen=True, kw_only=True):
    max_body_bytes: Annotated[
        int, Meta(ge=1024, le=GIBIBYTE, description="Size of a request body at most.")
    ] = 1 << 20


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """The ways in: WebSocket (`ws`), Server-Sent Events (`sse`) and plain HTTP (`http`)."""

    ws: WebSocket = WebSocket()
    sse: ServerSentEvents = ServerSentEvents()
    http: Http = Http()
