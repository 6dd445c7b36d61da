"""The keys of the ZeroMQ door; `settings_keys` says how to read them."""

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
    secret_key_file: Annotated[
        Path | None,
        Meta(
            description="File with the secret key of the server, made on first start. With it, "
            "everything is encrypted and only clients that use CURVE get in."
        ),
    ] = None
    clients: Annotated[
        tuple[CurveClient, ...],
        Meta(
            description="Clients that need no token, by their `publicKey` (Z85): their `hub`, "
            "`user`, `level` (`client` or `service`) and `channels` as in a token, and "
            "`since` (seconds since 1970): revocations before that do not concern the key."
        ),
    ] = ()
    allow_unknown: Annotated[
        bool, Meta(description="Let clients with other keys in; they have to bring a token.")
    ] = False


class ZeroMq(msgspec.Struct, frozen=True, kw_only=True):
    """Topics over ZeroMQ: a ROUTER socket for REQ and DEALER clients."""

    endpoint: Annotated[
        str | None,
        Meta(
            description="Where to listen, such as `tcp://127.0.0.1:8001` or `ipc:///run/hubbub`; "
            "without it there is no ZeroMQ. In developer mode it is the port after "
            "`listener.port`.",
        ),
    ] = None
    max_message_bytes: Annotated[
        int, Meta(ge=1024, le=GIBIBYTE, description="Size of a request at most, all frames.")
    ] = 1 << 20
    max_in_flight: Annotated[
        int,
        Meta(
            ge=2,
            le=1_000_000,
            description="Requests under way at most, half of them waiting; more get an error.",
        ),
    ] = 10_000
    max_in_flight_per_peer: Annotated[
        int,
        Meta(ge=1, le=10_000, description="The same of one connection."),
    ] = 100
    max_connections: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Connections at most; more are closed.")
    ] = 1000
    max_buffered_bytes: Annotated[
        int,
        Meta(
            ge=65_536,
            le=64 * GIBIBYTE,
            description="Bytes at most, of all connections, of messages that have not ended or "
            "were not read yet; when there are more, the connection that has most is closed. Two "
            "messages always fit.",
        ),
    ] = 32 << 20
    curve: Curve = Curve()
