"""Settings of the ZeroMQ endpoint; `keys` explains the format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from hubbub.domain.permissions import Grant

GIBIBYTE = 1 << 30


class CurveClient(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The identity of a key's holder."""

    public_key: str
    hub: str
    user: str | None = None
    level: Literal["client", "service"] = "client"
    channels: tuple[Grant, ...] = ()
    since: Annotated[int, Meta(ge=0, le=1 << 40)] = 0
    """When the key was issued, in seconds since 1970; later revocations apply to it."""


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    secret_key_file: Path | None = None
    """File with the secret key of the server, created on first start. With it, connections are
    encrypted and only clients that use CURVE are admitted."""
    clients: tuple[CurveClient, ...] = ()
    """Clients that need no token, by their `publicKey` (Z85): their `hub`, `user`, `level`
    (`client` or `service`) and `channels` as in a token, and `since` (seconds since 1970): earlier
    revocations do not apply to the key."""
    allow_unknown: bool = False
    """Admit clients with other keys, which must present a token."""


class ZeroMq(msgspec.Struct, frozen=True, kw_only=True):
    """Topics over ZeroMQ: a ROUTER socket for REQ and DEALER clients."""

    endpoint: str | None = None
    """Address to listen on, such as `tcp://127.0.0.1:8001` or `ipc:///run/hubbub`; without it
    ZeroMQ is disabled. In developer mode it is the port after `listener.port`."""
    max_message_bytes: Annotated[int, Meta(ge=1024, le=GIBIBYTE)] = 1 << 20
    """Maximum size of a request, all frames together."""
    max_in_flight: Annotated[int, Meta(ge=2, le=1_000_000)] = 10_000
    """Maximum number of requests in flight, half of them queued; further ones fail."""
    max_in_flight_per_peer: Annotated[int, Meta(ge=1, le=10_000)] = 100
    """The same limit for one connection."""
    max_connections: Annotated[int, Meta(ge=1, le=1_000_000)] = 1000
    """Maximum number of connections; further ones are closed."""
    max_buffered_bytes: Annotated[int, Meta(ge=65_536, le=64 * GIBIBYTE)] = 32 << 20
    """Maximum number of bytes, over all connections, of incomplete or unread messages; beyond that,
    the connection with the most bytes is closed. Two messages always fit."""
    curve: Curve = Curve()
