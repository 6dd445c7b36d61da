"""Creates the store from the settings."""

from __future__ import annotations

from pathlib import Path

from hubbub.ports.storage import Store
from hubbub.server.data_folder import DATABASE
from hubbub.server.settings import Settings
from hubbub.server.settings.checks import is_on_this_machine


def make_store(settings: Settings) -> Store:
    """PostgreSQL if a host is configured, else embedded. Each is imported only if used."""
    if settings.storage.postgres.host is not None:
        return _on_postgres(settings)
    from hubbub.storage.sqlite.store import SqliteStore

    return SqliteStore(
        Path(settings.storage.path) / DATABASE, reserve_bytes=settings.storage.reserve_bytes
    )


def _on_postgres(settings: Settings) -> Store:
    from hubbub.storage.postgres.connection import PostgresOptions
    from hubbub.storage.postgres.store import PostgresStore

    postgres, sql = settings.storage.postgres, settings.sql
    ssl_mode = postgres.ssl_mode
    if ssl_mode == "auto":
        local = all(map(is_on_this_machine, postgres.hosts))
        ssl_mode = "disable" if local else "verify-full"
    return PostgresStore(
        PostgresOptions(
            hosts=postgres.hosts,
            port=postgres.port,
            user=postgres.user,
            password=None if postgres.password is None else postgres.password.reveal(),
            database=postgres.db_name,
            ssl_mode=ssl_mode,
            ssl_root_certificate=postgres.ssl_root_cert,
            ssl_certificate=postgres.ssl_cert,
            ssl_key=postgres.ssl_key,
            connect_seconds=postgres.connect_timeout,
            statement_seconds=postgres.statement_timeout,
            most_connections=sql.max_connections,
            idle_connections=sql.idle_connections,
            connection_lifetime_seconds=sql.connection_max_lifetime,
        )
    )
