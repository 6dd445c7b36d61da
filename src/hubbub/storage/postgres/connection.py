"""Connections to a PostgreSQL server: addresses, TLS, timeouts."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any, Literal

import asyncpg
import msgspec

from hubbub.domain.errors import HubbubError, StoreUnavailable
from hubbub.storage.postgres.errors import describe

SslMode = Literal["disable", "require", "verify-ca", "verify-full"]

_GRACE_SECONDS = 5.0


class PostgresOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`hosts` are names, addresses or folders of a Unix socket, all with the same `port`; of
    several, the writable server is used. `ssl_mode` has the same values as in psql."""

    hosts: tuple[str, ...]
    port: int = 5432
    user: str
    password: str | None = None
    database: str
    ssl_mode: SslMode = "verify-full"
    ssl_root_certificate: Path | None = None
    """The trusted authorities; default: those of the system."""
    ssl_certificate: Path | None = None
    ssl_key: Path | None = None
    connect_seconds: float = 5.0
    statement_seconds: float = 15.0
    lock_seconds: float = 5.0
    idle_in_transaction_seconds: float = 3.0
    """Less than the value above: a node that takes over must wait for a silent one."""
    most_connections: int = 8
    idle_connections: int = 4
    connection_lifetime_seconds: float = 1800.0

    def __repr__(self) -> str:
        return f"<PostgresOptions {self.address}>"

    @property
    def address(self) -> str:
        """The database's name for messages, without the password."""
        return f"{self.database!r} at {','.join(self.hosts)}:{self.port}"


def tls_context(options: PostgresOptions) -> ssl.SSLContext | Literal[False]:
    """The TLS context for `ssl_mode`. Raises `StoreUnavailable` for unusable files."""
    mode = options.ssl_mode
    if mode == "disable":
        return False
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = mode == "verify-full"
    try:
        if options.ssl_root_certificate is not None:
            context.load_verify_locations(options.ssl_root_certificate)
        elif mode == "require":
            context.verify_mode = ssl.CERT_NONE
        else:
            context.load_default_certs()
        if options.ssl_certificate is not None:
            context.load_cert_chain(options.ssl_certificate, options.ssl_key)
    except OSError as error:
        raise StoreUnavailable.because(
            f"the certificates for the database {options.address} cannot be used ({error});"
            " check storage.postgres.sslRootCert, sslCert and sslKey"
        ) from error
    return context


async def connect(options: PostgresOptions) -> asyncpg.Connection[asyncpg.Record]:
    """Connects to the writable server. Raises `StoreUnavailable`.

    The server itself aborts operations that take too long, even if the hub hangs in a transaction:
    its locks would prevent others from taking over its partitions.
    """
    settings = {
        "application_name": "hubbub",
        "synchronous_commit": "on",
        "statement_timeout": _milliseconds(options.statement_seconds),
        "lock_timeout": _milliseconds(options.lock_seconds),
        "idle_in_transaction_session_timeout": _milliseconds(options.idle_in_transaction_seconds),
    }
    tls = tls_context(options)
    try:
        # The time-out of the driver is for one address; names may have many.
        async with asyncio.timeout(options.connect_seconds * len(options.hosts)):
            return await asyncpg.connect(
                host=list(options.hosts),
                port=[options.port] * len(options.hosts),
                user=options.user,
                password=options.password,
                database=options.database,
                ssl=tls,
                timeout=options.connect_seconds,
                command_timeout=options.statement_seconds + _GRACE_SECONDS,
                target_session_attrs=_session_attributes(options),
                server_settings=settings,
            )
    except Exception as error:
        raise unavailable(error, options) from error


def unavailable(error: Exception, options: PostgresOptions) -> HubbubError:
    """Converts any failure to an error of the store."""
    found = error if isinstance(error, HubbubError) else describe(error, options.address)
    return found or StoreUnavailable.because(f"the database {options.address} failed ({error!r})")


def _session_attributes(options: PostgresOptions) -> Any:
    return "any" if len(options.hosts) == 1 else "read-write"


def _milliseconds(seconds: float) -> str:
    return str(int(seconds * 1000))
