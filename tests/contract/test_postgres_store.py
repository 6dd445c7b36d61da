"""The store's contract on PostgreSQL, and what only a server that others share can go through."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from contract.storage.records import (
    EPOCH,
    PARTITION,
    MakeStore,
    append,
    fill,
    message,
    opened,
    own,
    serials,
    why_it_cannot_open,
)
from contract.storage.settings import RULES_OF_BEFORE, before_live_history, live_histories
from contract.storage.threads import (
    DELETED_WITHOUT_INDEX,
    WITHOUT_INDEX,
    fill_with_threads,
    index_after_a_deletion,
    index_in_the_midst_of_appends,
)
from contract.storage.usage import Query
from contract.store_contract import StoreContract
from harness.postgres import TestDatabase
from hubbub.domain.errors import Conflict, StaleOwner, StoreUnavailable
from hubbub.ports.storage.messages import Append, ChannelHead
from hubbub.ports.storage.settings import SettingsEntry
from hubbub.storage.postgres.connection import connect
from hubbub.storage.postgres.schema import migrate
from hubbub.storage.postgres.store import PostgresStore
from hubbub.storage.sql.fair_queue import QueueLimits
from hubbub.storage.sql.schema import POSTGRES, Migration, load_migrations

MIGRATIONS = load_migrations(POSTGRES)
NEWEST = MIGRATIONS[-1].version


class TestPostgresStore(StoreContract):
    @pytest.fixture
    def make_store(self, database: TestDatabase) -> MakeStore:
        return lambda: PostgresStore(database.options)

    @pytest.fixture
    def query(self, database: TestDatabase) -> Query:
        async def query(statement: str) -> list[tuple[Any, ...]]:
            async with database.connection() as connection:
                return [tuple(row) for row in await connection.fetch(statement)]

        return query


# -- several hubs on one database -------------------------------------------------------------


@pytest.mark.spec("CLU-01", "OPS-03")
async def test_hubs_that_start_together_bring_the_schema_up_to_date_once(
    database: TestDatabase,
) -> None:
    stores = [PostgresStore(database.options) for _ in range(5)]
    await asyncio.gather(*(store.open() for store in stores))
    async with database.connection() as connection:
        rows = await connection.fetch("SELECT version FROM schema_versions ORDER BY version")
    assert [row["version"] for row in rows] == list(range(1, NEWEST + 1))
    terms = [await own(store, f"node-{n}") for n, store in enumerate(stores)]
    assert terms == [1, 2, 3, 4, 5]
    await asyncio.gather(*(store.close() for store in stores))


@pytest.mark.spec("CLU-01", "ONCE-03")
async def test_a_takeover_in_the_middle_of_a_batch_waits_for_it_and_shuts_the_old_owner_out(
    database: TestDatabase,
) -> None:
    async with (
        opened(PostgresStore(database.options)) as old,
        opened(PostgresStore(database.options)) as new,
        database.connection() as obstacle,
    ):
        term = await fill(old, 1)
        async with obstacle.transaction():
            # The batch has checked its term, and then cannot go on.
            await obstacle.execute("SELECT FROM channels FOR UPDATE")
            batch = asyncio.ensure_future(old.append([append(message(2), term)]))
            await database.until_blocked(1)
            takeover = asyncio.ensure_future(own(new, "node-2"))
            await database.until_blocked(2)
            assert not takeover.done()
        assert await batch == [None]
        assert await takeover == term + 1
        (refused,) = await old.append([append(message(3), term, retain_until=99)])
        assert isinstance(refused, StaleOwner)
        with pytest.raises(StaleOwner):
            await old.save_retained(message(3), 99, PARTITION, term)
        with pytest.raises(StaleOwner):
            await old.delete_retained("demo", "news", PARTITION, term)
        assert await new.read_head("demo", "news") == ChannelHead(EPOCH, 2, 1)
        assert await new.append([append(message(3), term + 1)]) == [None]


@pytest.mark.spec("CLU-01", "ONCE-03")
async def test_a_batch_in_the_middle_of_a_takeover_waits_for_it_and_is_refused(
    database: TestDatabase,
) -> None:
    async with (
        opened(PostgresStore(database.options)) as store,
        database.connection() as other,
    ):
        term = await fill(store, 1)
        await store.acquire_partitions([8], "node-1")
        async with other.transaction():
            await other.execute("UPDATE partitions SET term = term + 1 WHERE partition_id = 7")
            batch = asyncio.ensure_future(
                store.append(
                    [
                        append(message(2), term, retain_until=99),
                        Append(message(1, "elsewhere"), EPOCH, 8, 1),
                    ]
                )
            )
            await database.until_blocked(1)
        refused, stored = await batch
        assert isinstance(refused, StaleOwner)
        assert stored is None
        assert await store.read_retained("demo", "news", 0) is None
        assert await store.read_head("demo", "news") == ChannelHead(EPOCH, 1, 1)
        assert await store.read_head("demo", "elsewhere") == ChannelHead(EPOCH, 1, 1)


@pytest.mark.spec("CLU-01")
async def test_an_owner_that_falls_silent_in_a_transaction_cannot_hold_up_a_takeover(
    database: TestDatabase,
) -> None:
    async with opened(PostgresStore(database.options)) as store:
        term = await own(store)
        silent = await connect(database.with_options(idle_in_transaction_seconds=0.5))
        await silent.execute("BEGIN")
        await silent.execute("SELECT FROM partitions WHERE partition_id = 7 FOR SHARE")
        assert await own(store, "node-2") == term + 1
        async with database.operator() as operator:
            left = "SELECT count(*) FROM pg_stat_activity WHERE pid = $1"
            while await operator.fetchval(left, silent.get_server_pid()):
                pass
        silent.terminate()


async def test_of_hubs_that_create_the_same_setting_one_wins(database: TestDatabase) -> None:
    stores = [PostgresStore(database.options) for _ in range(4)]
    await asyncio.gather(*(store.open() for store in stores))
    entry = SettingsEntry("rules", "h", "a", b"1")
    results = await asyncio.gather(
        *(store.put_settings([entry], {"a": 0}) for store in stores), return_exceptions=True
    )
    assert sum(isinstance(result, Conflict) for result in results) == 3
    await asyncio.gather(*(store.close() for store in stores))


# -- schema -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(NEWEST))
async def test_every_older_version_is_brought_up_to_date(
    database: TestDatabase, version: int
) -> None:
    if version:
        async with database.connection() as connection:
            await migrate(connection, "here", MIGRATIONS[:version])
    async with opened(PostgresStore(database.options)) as store:
        await fill(store, 1)


@pytest.mark.spec("LIVE-22")
async def test_rules_of_the_version_before_keep_their_live_history(database: TestDatabase) -> None:
    before = before_live_history(MIGRATIONS)
    async with database.connection() as connection:
        await migrate(connection, "here", MIGRATIONS[:before])
        for name, value in RULES_OF_BEFORE.items():
            await connection.execute(
                "INSERT INTO settings VALUES ('rules', 'acme', $1, $2, 1)", name, value
            )
    async with opened(PostgresStore(database.options)) as store:
        assert await live_histories(store) == {"none": False, "some": False, "kept": True}


@pytest.mark.spec("CLU-01")
async def test_the_next_version_comes_all_or_nothing_under_a_hub_that_goes_on(
    database: TestDatabase,
) -> None:
    good = "ALTER TABLE channels ADD COLUMN note TEXT NOT NULL DEFAULT 'none'"
    broken = Migration(NEWEST + 1, (good, "ALTER TABLE nowhere ADD COLUMN x TEXT"))
    async with (
        opened(PostgresStore(database.options)) as store,
        database.connection() as connection,
    ):
        term = await fill(store, 3)
        with pytest.raises(asyncpg.UndefinedTableError):
            await migrate(connection, "here", (*MIGRATIONS, broken))
        assert await connection.fetchval("SELECT max(version) FROM schema_versions") == NEWEST
        await migrate(connection, "here", (*MIGRATIONS, Migration(NEWEST + 1, (good,))))
        assert await store.append([append(message(4), term)]) == [None]
        assert serials(await store.read_after("demo", "news", 0, 9)) == [1, 2, 3, 4]
        reason = await why_it_cannot_open(PostgresStore(database.options))
        assert f"schema version {NEWEST + 1}" in reason
        assert "run the newer Hubbub" in reason


# -- faults of one operation ------------------------------------------------------------------


@pytest.mark.spec("OPS-03")
async def test_the_unique_index_is_a_backstop_that_harms_only_its_own_channel(
    database: TestDatabase,
) -> None:
    async with opened(PostgresStore(database.options)) as store:
        term = await fill(store, 2, "wrong")
        async with database.connection() as connection:
            await connection.execute("UPDATE channels SET head = 1 WHERE name = 'wrong'")
        calls = [store.append([append(message(2, "wrong"), term)])]
        calls += [store.append([append(message(1, f"right{n}"), term)]) for n in range(9)]
        (wrong,), *right = await asyncio.gather(*calls)
        assert isinstance(wrong, Conflict)
        assert right == [[None]] * 9
        assert await store.stored_bytes("demo") == 110


async def test_texts_with_characters_that_the_database_lacks_come_back_as_they_were(
    database: TestDatabase,
) -> None:
    odd = ["\x00", "\x01", "\x010", "\x01\x00", "\x00\x01\x011", "", "1", "\x7f\U0010ffff"]
    async with opened(PostgresStore(database.options)) as store:
        term = await own(store)
        for name in odd:
            assert await store.append([append(message(1, name), term)]) == [None]
        for name in odd:
            (found,) = (await store.read_after("demo", name, 0, 2)).messages
            assert found == message(1, name)


# -- bounds -----------------------------------------------------------------------------------


async def test_reads_beyond_the_connections_wait_for_their_turn(database: TestDatabase) -> None:
    options = database.with_options(most_connections=3, idle_connections=1)
    async with opened(PostgresStore(options)) as store:
        await fill(store, 3)
        pages = [store.read_after("demo", "news", 0, 10) for _ in range(60)]
        assert [serials(page) for page in await asyncio.gather(*pages)] == [[1, 2, 3]] * 60
        async with database.operator() as connection:
            count = "SELECT count(*) FROM pg_stat_activity WHERE usename = $1"
            assert await connection.fetchval(count, database.name) <= 3


async def test_a_flood_of_one_hub_is_refused_while_another_is_served(
    database: TestDatabase,
) -> None:
    limits = QueueLimits(pending_weight=100, lane_share=0.5)
    async with opened(PostgresStore(database.options, limits=limits)) as store:
        term = await own(store)
        flood = [store.append([append(message(n, hub="loud"), term)]) for n in range(1, 201)]
        quiet = store.append([append(message(1, hub="quiet"), term)])
        *results, answer = await asyncio.gather(*flood, quiet, return_exceptions=True)
        assert answer == [None]
        assert sum(isinstance(result, StoreUnavailable) for result in results) == 150


@pytest.mark.spec("SEC-01", "LIVE-13")
async def test_large_messages_make_pages_shorter_but_never_empty(database: TestDatabase) -> None:
    async with opened(PostgresStore(database.options, page_bytes=25)) as store:
        await fill(store, 5)
        page = await store.read_after("demo", "news", 0, 100)
        assert (serials(page), page.more) == ([1, 2], True)
        page = await store.read_before("demo", "news", None, 100)
        assert (serials(page), page.more) == ([4, 5], True)
    async with opened(PostgresStore(database.options, page_bytes=1)) as store:
        page = await store.read_before_time("demo", "news", 3000, 100)
        assert (serials(page), page.more) == ([2], True)
        page = await store.read_after("demo", "news", 4, 100)
        assert (serials(page), page.more) == ([5], False)


async def test_a_connection_is_replaced_when_it_is_old(database: TestDatabase) -> None:
    options = database.with_options(connection_lifetime_seconds=0.0)
    async with opened(PostgresStore(options)) as store:
        term = await own(store)
        for serial in range(1, 4):
            assert await store.append([append(message(serial), term)]) == [None]
        assert serials(await store.read_after("demo", "news", 0, 10)) == [1, 2, 3]


@pytest.mark.spec("OPS-03")
async def test_a_write_that_waits_too_long_is_refused_and_leaves_no_trace(
    database: TestDatabase,
) -> None:
    options = database.with_options(lock_seconds=0.1)
    async with (
        opened(PostgresStore(options)) as store,
        database.connection() as obstacle,
    ):
        term = await fill(store, 1)
        async with obstacle.transaction():
            await obstacle.execute("SELECT FROM channels FOR UPDATE")
            with pytest.raises(StoreUnavailable, match="locked by another transaction"):
                await store.append([append(message(2), term)])
        assert serials(await store.read_after("demo", "news", 0, 9)) == [1]
        assert await store.append([append(message(2), term)]) == [None]


@pytest.mark.spec("CMD-07")
async def test_conversations_of_an_older_store_are_indexed_once(database: TestDatabase) -> None:
    async with opened(PostgresStore(database.options)) as store:
        await fill_with_threads(store)
        async with database.connection() as connection:
            for statement in WITHOUT_INDEX:
                await connection.execute(statement)
        await index_in_the_midst_of_appends(store)


@pytest.mark.spec("CLU-01")
async def test_what_a_node_of_an_older_version_deleted_leaves_the_index(
    database: TestDatabase,
) -> None:
    async with opened(PostgresStore(database.options)) as store:
        await fill_with_threads(store)
        async with database.connection() as connection:
            for statement in DELETED_WITHOUT_INDEX:
                await connection.execute(statement)
        await index_after_a_deletion(store)
