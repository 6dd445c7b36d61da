"""Settings of persistent storage."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from hubbub.domain.secret import Secret

DAY = 86_400.0
SslMode = Literal["auto", "disable", "require", "verify-ca", "verify-full"]


class Postgres(msgspec.Struct, frozen=True, kw_only=True):
    host: str | None = None
    """Name or address of a PostgreSQL server, or the folder of its Unix socket. If set, the hub
    stores there and not in `storage.path`. Of several, separated by commas, the writable one is
    used."""
    port: Annotated[int, Meta(ge=1, le=65_535)] = 5432
    """Port of the server."""
    user: Annotated[str, Meta(min_length=1, max_length=63)] = "hubbub"
    """User for the login; creates the tables in its own schema on first start."""
    password: Secret | None = None
    """Password of the user; default: as in psql (`~/.pgpass`)."""
    db_name: Annotated[str, Meta(min_length=1, max_length=63)] = "hubbub"
    """Database; it must exist."""
    ssl_mode: SslMode = "auto"
    """As in psql; `auto` is `verify-full`, but `disable` for a server on this machine. `require`
    encrypts without verifying the server."""
    ssl_root_cert: Path | None = None
    """PEM file of trusted authorities; default: those of the system."""
    ssl_cert: Path | None = None
    """PEM file with the hub's own certificate, if it needs one."""
    ssl_key: Path | None = None
    """PEM file with the private key of that certificate."""
    connect_timeout: Annotated[float, Meta(ge=0.1, le=300)] = 5.0
    """Timeout of connecting to the server."""
    statement_timeout: Annotated[float, Meta(ge=0.1, le=3600)] = 15.0
    """Timeout of a statement."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Empty if none is configured."""
        return tuple(host.strip() for host in (self.host or "").split(",") if host.strip())


class Storage(msgspec.Struct, frozen=True, kw_only=True):
    """Persistent storage."""

    path: Path = Path("data")
    """Folder of the embedded store and of the generated secrets."""
    reserve_bytes: Annotated[int, Meta(ge=0, le=1 << 30)] = 32 * 1024 * 1024
    """Disk space that the embedded store reserves, at most a sixteenth of the disk, so that a hub
    on a full disk can start, delete and be administered. 0 reserves nothing."""
    postgres: Postgres = Postgres()


class PostgresSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Connections to the PostgreSQL server; without effect on the embedded store."""

    idle_connections: Annotated[int, Meta(ge=0, le=1000)] = 4
    """Connections that are kept open while unused."""
    max_connections: Annotated[int, Meta(ge=2, le=1000)] = 8
    """Maximum number of connections: one writes, the others read. Further reads wait."""
    connection_max_lifetime: Annotated[float, Meta(ge=1, le=7 * DAY)] = 1800.0
    """Age at which a connection is replaced."""
