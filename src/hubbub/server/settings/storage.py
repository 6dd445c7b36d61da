"""The keys that say where the hub keeps what must survive it."""

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
    """Name or address of a PostgreSQL server, or the folder of its Unix socket. With it, the hub
    stores there and not in `storage.path`. Of several, separated by commas, the one that takes
    writes is used."""
    port: Annotated[int, Meta(ge=1, le=65_535)] = 5432
    """Port of the server."""
    user: Annotated[str, Meta(min_length=1, max_length=63)] = "hubbub"
    """User to log in as; creates the tables in its own schema on first start."""
    password: Secret | None = None
    """Password of the user; without it, what psql would use (`~/.pgpass`)."""
    db_name: Annotated[str, Meta(min_length=1, max_length=63)] = "hubbub"
    """Database; it must exist."""
    ssl_mode: SslMode = "auto"
    """As for psql; `auto` is `verify-full`, but `disable` for a server on this machine. `require`
    encrypts without knowing to whom."""
    ssl_root_cert: Path | None = None
    """PEM file of the authorities to trust; else those of the system."""
    ssl_cert: Path | None = None
    """PEM file with the hub's own certificate, if it needs one."""
    ssl_key: Path | None = None
    """PEM file with the private key of that certificate."""
    connect_timeout: Annotated[float, Meta(ge=0.1, le=300)] = 5.0
    """Time for the server to take a connection."""
    statement_timeout: Annotated[float, Meta(ge=0.1, le=3600)] = 15.0
    """Time for a statement, then it is given up."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Empty where none is configured."""
        return tuple(host.strip() for host in (self.host or "").split(",") if host.strip())


class Storage(msgspec.Struct, frozen=True, kw_only=True):
    """Where the hub keeps what must survive it."""

    path: Path = Path("data")
    """Folder of the embedded store and of the generated secrets."""
    postgres: Postgres = Postgres()


class Sql(msgspec.Struct, frozen=True, kw_only=True):
    """Connections to the PostgreSQL server; without effect on the embedded store."""

    idle_connections: Annotated[int, Meta(ge=0, le=1000)] = 4
    """Connections that are kept while nobody uses them."""
    max_connections: Annotated[int, Meta(ge=2, le=1000)] = 8
    """Connections at most: one writes, the others read. Further reads wait."""
    connection_max_lifetime: Annotated[float, Meta(ge=1, le=7 * DAY)] = 1800.0
    """Age at which a connection is replaced."""
