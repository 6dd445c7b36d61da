"""A real PostgreSQL server for all tests of a session, with a database user for each test."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import asyncpg
import msgspec
import pytest

from benchmarks.postgres import PASSWORD, USER, LocalPostgres, local_postgres
from hubbub.storage.postgres.connection import PostgresOptions

DATABASE = "postgres"

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

_BLOCKED = "SELECT count(*) FROM pg_stat_activity WHERE usename = $1 AND wait_event_type = 'Lock'"


class TestDatabase:
    """Tables of a test's own: those of a user without privileges, in that user's schema."""

    __test__ = False

    def __init__(self, server: LocalPostgres) -> None:
        self.server = server
        self.name = f"test_{secrets.token_hex(6)}"
        self.options = PostgresOptions(
            hosts=("127.0.0.1",),
            port=server.port,
            user=self.name,
            password=PASSWORD,
            database=DATABASE,
            ssl_mode="disable",
        )

    def with_options(self, **changes: object) -> PostgresOptions:
        return msgspec.structs.replace(self.options, **changes)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A way to the test's tables beside the store."""
        connection = await connect(self.server, self.name)
        try:
            yield connection
        finally:
            await connection.close()

    @asynccontextmanager
    async def operator(self) -> AsyncIterator[Connection]:
        """Whoever may do everything."""
        connection = await connect(self.server, USER)
        try:
            yield connection
        finally:
            await connection.close()

    async def until_blocked(self, count: int) -> None:
        """Wait until so many connections of the test wait for a lock."""
        async with self.operator() as connection:
            while await connection.fetchval(_BLOCKED, self.name) < count:
                pass

    async def create(self) -> None:
        async with self.operator() as connection:
            await connection.execute(f"CREATE ROLE {self.name} LOGIN PASSWORD '{PASSWORD}'")
            await connection.execute(f"CREATE SCHEMA AUTHORIZATION {self.name}")


async def connect(server: LocalPostgres, user: str) -> Connection:
    return await asyncpg.connect(
        host="127.0.0.1",
        port=server.port,
        user=user,
        password=PASSWORD,
        database=DATABASE,
        ssl=False,
    )


async def restart(server: LocalPostgres) -> None:
    """Start a server that was stopped or killed, while the test goes on."""
    server.launch()
    while not server.ready():
        await asyncio.sleep(0.01)


@pytest.fixture(scope="session")
def postgres() -> Iterator[LocalPostgres]:
    with local_postgres() as server:
        yield server


async def new_database(server: LocalPostgres) -> TestDatabase:
    database = TestDatabase(server)
    await database.create()
    return database


@pytest.fixture
async def database(postgres: LocalPostgres) -> TestDatabase:
    return await new_database(postgres)
