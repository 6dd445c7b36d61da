"""The keys that say where the hub keeps what must survive it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from hubbub.server.settings.secret import Secret

DAY = 86_400.0
SslMode = Literal["auto", "disable", "require", "verify-ca", "verify-full"]


class Postgres(msgspec.Struct, frozen=True, kw_only=True):
    host: Annotated[
        str | None,
        Meta(
            description="Name or address of a PostgreSQL server, or the folder of "
            "its Unix socket. With it, the hub stores there and not in `storage.path`. Of "
            "several, separated by commas, the one that takes writes is used.",
        ),
    ] = None
    port: Annotated[int, Meta(ge=1, le=65_535, description="Port of the server.")] = 5432
    user: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=63,
            description="User to log in as; creates the tables in its own schema on first start.",
        ),
    ] = "hubbub"
    password: Annotated[
        Secret | None,
        Meta(description="Password of the user; without it, what psql would use (`~/.pgpass`)."),
    ] = None
    db_name: Annotated[
        str, Meta(min_length=1, max_length=63, description="Database; it must exist.")
    ] = "hubbub"
    ssl_mode: Annotated[
        SslMode,
        Meta(
            description="As for psql; `auto` is `verify-full`, but `disable` for a server on this "
            "machine. `require` encrypts without knowing to whom."
        ),
    ] = "auto"
    ssl_root_cert: Annotated[
        Path | None,
        Meta(description="PEM file of the authorities to trust; else those of the system."),
    ] = None
    ssl_cert: Annotated[
        Path | None, Meta(description="PEM file with the hub's own certificate, if it needs one.")
    ] = None
    ssl_key: Annotated[
        Path | None, Meta(description="PEM file with the private key of that certificate.")
    ] = None
    connect_timeout: Annotated[
        float, Meta(ge=0.1, le=300, description="Time for the server to take a connection.")
    ] = 5.0
    statement_timeout: Annotated[
        float, Meta(ge=0.1, le=3600, description="Time for a statement, then it is given up.")
    ] = 15.0

    @property
    def hosts(self) -> tuple[str, ...]:
        """Empty where none is configured."""
        return tuple(host.strip() for host in (self.host or "").split(",") if host.strip())


class Storage(msgspec.Struct, frozen=True, kw_only=True):
    """Where the hub keeps what must survive it."""

    path: Annotated[
        Path,
        Meta(description="Folder of the embedded store and of the generated secrets."),
    ] = Path("data")
    postgres: Postgres = Postgres()


class Sql(msgspec.Struct, frozen=True, kw_only=True):
    """Connections to the PostgreSQL server; without effect on the embedded store."""

    idle_connections: Annotated[
        int, Meta(ge=0, le=1000, description="Connections that are kept while nobody uses them.")
    ] = 4
    max_connections: Annotated[
        int,
        Meta(
            ge=2,
            le=1000,
            description="Connections at most: one writes, the others read. Further reads wait.",
        ),
    ] = 8
    connection_max_lifetime: Annotated[
        float, Meta(ge=1, le=7 * DAY, description="Age at which a connection is replaced.")
    ] = 1800.0
