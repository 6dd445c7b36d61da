"""The keys of the ZeroMQ door; `keys` says how to read them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from hubbub.domain.permissions import Grant

GIBIBYTE = 1 << 30


class CurveClient(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Who the holder of a key is."""

    public_key: str
    hub: str
    user: str | None = None
    level: Literal["client", "service"] = "client"
    channels: tuple[Grant, ...] = ()
    since: Annotated[int, Meta(ge=0, le=1 << 40)] = 0
    """When it was given the key, in seconds since 1970; later revocations concern it."""


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    secret_key_file: Path | None = None
    """File with the secret key of the server, made on first start. With it, everything is encrypted
    and only clients that use CURVE get in."""
    clients: tuple[CurveClient, ...] = ()
    """Clients that need no token, by their `publicKey` (Z85): their `hub`, `user`, `level`
    (`client` or `service`) and `channels` as in a token, and `since` (seconds since 1970):
    revocations before that do not concern the key."""
    allow_unknown: bool = False
    """Let clients with other keys in; they have to bring a token."""


class ZeroMq(msgspec.Struct, frozen=True, kw_only=True):
    """Topics over ZeroMQ: a ROUTER socket for REQ and DEALER clients."""

    endpoint: str | None = None
    """Where to listen, such as `tcp://127.0.0.1:8001` or `ipc:///run/hubbub`; without it there is
    no ZeroMQ. In developer mode it is the port after `listener.port`."""
    max_message_bytes: Annotated[int, Meta(ge=1024, le=GIBIBYTE)] = 1 << 20
    """Size of a request at most, all frames."""
    max_in_flight: Annotated[int, Meta(ge=2, le=1_000_000)] = 10_000
    """Requests under way at most, half of them waiting; more get an error."""
    max_in_flight_per_peer: Annotated[int, Meta(ge=1, le=10_000)] = 100
    """The same of one connection."""
    max_connections: Annotated[int, Meta(ge=1, le=1_000_000)] = 1000
    """Connections at most; more are closed."""
    max_buffered_bytes: Annotated[int, Meta(ge=65_536, le=64 * GIBIBYTE)] = 32 << 20
    """Bytes at most, of all connections, of messages that have not ended or were not read yet; when
    there are more, the connection that has most is closed. Two messages always fit."""
    curve: Curve = Curve()
