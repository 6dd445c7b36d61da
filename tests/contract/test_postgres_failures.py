"""PostgreSQL going away, coming back, and refusing: what the store makes of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from benchmarks.postgres import PASSWORD, LocalPostgres, local_postgres
from contract.storage.records import append, fill, message, opened, own, serials, why_it_cannot_open
from harness.cutting_proxy import CuttingProxy, cutting_proxy
from harness.postgres import TestDatabase, new_database, restart
from hubbub.domain.errors import STORE_AWAY, StoreUnavailable
from hubbub.storage.postgres.store import PostgresStore

COMMIT = b"COMMIT\x00"
"""The statement as it travels."""


@pytest.fixture(scope="module")
def mortal() -> Iterator[LocalPostgres]:
    """A server that tests may kill."""
    with local_postgres() as server:
        yield server


@pytest.fixture
async def doomed(mortal: LocalPostgres) -> TestDatabase:
    return await new_database(mortal)


@pytest.fixture
async def proxy(database: TestDatabase) -> AsyncIterator[CuttingProxy]:
    async with cutting_proxy(database.server.port) as proxy:
        yield proxy


async def until_stored(store: PostgresStore, serial: int, term: int) -> None:
    """Try until the store takes it. That it takes the same serial after it had refused it shows
    that nothing of the refused attempt was stored."""
    while True:
        try:
            assert await store.append([append(message(serial), term)]) == [None]
            return
        except StoreUnavailable:
            await asyncio.sleep(0.02)


# -- the server dies --------------------------------------------------------------------------


@pytest.mark.spec("ONCE-03", "OPS-03", "CLU-01")
async def test_nothing_acknowledged_is_lost_or_doubled_when_the_server_is_killed(
    doomed: TestDatabase,
) -> None:
    rounds = 2
    async with opened(PostgresStore(doomed.options)) as store:
        term = await own(store)
        acknowledged = dict.fromkeys((f"c{n}" for n in range(20)), 0)
        over = asyncio.Event()

        async def publish(channel: str) -> None:
            serial = 1
            while not over.is_set():
                try:
                    (refused,) = await store.append([append(message(serial, channel), term)])
                except StoreUnavailable:
                    await asyncio.sleep(0.02)
                    continue
                assert refused is None, f"{refused!r} after {acknowledged[channel]}"
                acknowledged[channel] = serial
                serial += 1

        async def more_than(count: int) -> None:
            while min(acknowledged.values()) <= count:
                await asyncio.sleep(0.005)

        publishers = [asyncio.ensure_future(publish(channel)) for channel in acknowledged]
        for _ in range(rounds):
            await more_than(max(acknowledged.values()) + 5)
            await asyncio.to_thread(doomed.server.kill)
            await restart(doomed.server)
        await more_than(max(acknowledged.values()) + 5)
        over.set()
        await asyncio.gather(*publishers)
        for channel, last in acknowledged.items():
            page = await store.read_after("demo", channel, 0, 100_000)
            assert serials(page) == list(range(1, last + 1))
        assert await store.stored_bytes("demo") == 10 * sum(acknowledged.values())


@pytest.mark.spec("OPS-03")
async def test_while_the_server_is_away_calls_are_refused_at_once_with_a_remedy(
    doomed: TestDatabase,
) -> None:
    async with opened(PostgresStore(doomed.options)) as store:
        term = await fill(store, 1)
        await asyncio.to_thread(doomed.server.stop)
        with pytest.raises(StoreUnavailable, match="check that it runs") as refused:
            await store.append([append(message(2), term)])
        assert str(doomed.server.port) in str(refused.value)
        assert refused.value.message == STORE_AWAY
        with pytest.raises(StoreUnavailable):
            await store.read_head("demo", "news")
        await restart(doomed.server)
        await until_stored(store, 2, term)
        assert serials(await store.read_after("demo", "news", 0, 9)) == [1, 2]


@pytest.mark.spec("OPS-03")
async def test_closing_while_the_server_is_away_comes_to_an_end(doomed: TestDatabase) -> None:
    store = PostgresStore(doomed.options)
    await store.open()
    term = await own(store)
    await asyncio.to_thread(doomed.server.stop)
    calls = [store.append([append(message(n), term)]) for n in range(1, 4)]
    results = asyncio.gather(*calls, return_exceptions=True)
    await asyncio.sleep(0)
    await store.close()
    assert all(isinstance(result, StoreUnavailable) for result in await results)
    await restart(doomed.server)


@pytest.mark.spec("OPS-03")
async def test_a_server_that_becomes_read_only_refuses_writes_until_it_is_promoted(
    doomed: TestDatabase,
) -> None:
    server = doomed.server
    async with opened(PostgresStore(doomed.options)) as store:
        term = await fill(store, 1)
        await asyncio.to_thread(server.stop)
        (server.data / "standby.signal").touch()
        await restart(server)
        reason = await why_it_cannot_open(PostgresStore(doomed.options))
        assert "is read-only: point storage.postgres.host at the primary" in reason
        while True:
            try:
                await store.append([append(message(2), term)])
            except StoreUnavailable as error:
                if "is read-only" in str(error):
                    break
                await asyncio.sleep(0.02)
        assert serials(await store.read_after("demo", "news", 0, 9)) == [1]
        async with doomed.operator() as connection:
            assert await connection.fetchval("SELECT pg_promote()")
        await until_stored(store, 2, term)


# -- the connection is lost -------------------------------------------------------------------


@pytest.mark.spec("ONCE-03", "OPS-03")
@pytest.mark.parametrize("answered", [True, False], ids=["after the commit", "before it"])
async def test_a_write_whose_commit_is_in_doubt_is_stored_and_answered_once(
    database: TestDatabase, proxy: CuttingProxy, answered: bool
) -> None:
    async with opened(PostgresStore(database.with_options(port=proxy.port))) as store:
        term = await own(store)
        proxy.answered = answered
        proxy.cut_at = COMMIT
        results = await store.append([append(message(1), term), append(message(5), term)])
        assert proxy.cut.is_set()
        assert results[0] is None
        assert results[1] is not None
        assert await store.append([append(message(2), term)]) == [None]
        assert serials(await store.read_after("demo", "news", 0, 9)) == [1, 2]


@pytest.mark.spec("ONCE-03", "OPS-03")
async def test_who_waits_for_a_commit_in_doubt_hears_no_guess(
    database: TestDatabase, proxy: CuttingProxy
) -> None:
    async with opened(PostgresStore(database.with_options(port=proxy.port))) as store:
        term = await own(store)
        proxy.answered = True
        proxy.refusing = True
        proxy.cut_at = COMMIT
        doubtful = asyncio.ensure_future(store.append([append(message(1), term)]))
        await proxy.cut.wait()
        with pytest.raises(StoreUnavailable):
            await store.append([append(message(1, "other"), term)])
        assert not doubtful.done()
        proxy.refusing = False
        assert await doubtful == [None]
        assert serials(await store.read_after("demo", "news", 0, 9)) == [1]


@pytest.mark.spec("OPS-03")
async def test_a_write_cut_off_in_the_middle_is_done_on_a_new_connection(
    database: TestDatabase, proxy: CuttingProxy
) -> None:
    async with opened(PostgresStore(database.with_options(port=proxy.port))) as store:
        term = await own(store)
        proxy.cut_at = b"INSERT INTO messages"
        assert await store.append([append(message(1), term)]) == [None]
        assert proxy.cut.is_set()
        assert serials(await store.read_after("demo", "news", 0, 9)) == [1]


async def test_a_read_whose_connection_is_lost_is_repeated(
    database: TestDatabase, proxy: CuttingProxy
) -> None:
    async with opened(PostgresStore(database.with_options(port=proxy.port))) as store:
        await fill(store, 3)
        proxy.cut_at = b"FROM messages"
        assert serials(await store.read_after("demo", "news", 0, 9)) == [1, 2, 3]
        assert proxy.cut.is_set()


@pytest.mark.spec("OPS-03")
async def test_an_operator_who_ends_all_connections_is_not_noticed(database: TestDatabase) -> None:
    async with opened(PostgresStore(database.options)) as store:
        term = await fill(store, 1)
        for serial in range(2, 6):
            async with database.operator() as connection:
                await connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1",
                    database.name,
                )
            assert await store.append([append(message(serial), term)]) == [None]
            page = await store.read_after("demo", "news", 0, 9)
            assert serials(page) == list(range(1, serial + 1))


async def test_of_several_hosts_the_one_that_takes_writes_is_used(database: TestDatabase) -> None:
    options = database.with_options(hosts=("127.0.0.2", "127.0.0.1"))
    async with opened(PostgresStore(options)) as store:
        await fill(store, 1)
    reason = await why_it_cannot_open(
        PostgresStore(database.with_options(hosts=("127.0.0.2", "127.0.0.3")))
    )
    assert "127.0.0.2,127.0.0.3" in reason


# -- the server refuses -----------------------------------------------------------------------


@pytest.mark.spec("OPS-03")
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"password": "wrong secret"}, ["refuses this user", "storage.postgres.user and password"]),
        ({"user": "nobody_here"}, ["refuses this user"]),
        ({"database": "nowhere"}, ["'nowhere'", "does not exist", "storage.postgres.dbName"]),
        ({"port": 1}, ["127.0.0.1:1", "cannot be reached", "check that it runs"]),
        ({"hosts": ("no-such-host.invalid",)}, ["cannot be found", "storage.postgres.host"]),
        ({"hosts": ("/nowhere",)}, ["/nowhere", "check that it runs"]),
    ],
)
async def test_a_server_that_cannot_be_used_is_named_with_a_remedy_and_without_the_secret(
    database: TestDatabase, changes: dict[str, object], words: list[str]
) -> None:
    options = database.with_options(**changes)
    reason = await why_it_cannot_open(PostgresStore(options))
    assert all(word in reason for word in words), reason
    assert PASSWORD not in reason
    assert "wrong secret" not in reason
    assert PASSWORD not in repr(options)


@pytest.mark.spec("OPS-03")
async def test_a_server_without_a_connection_left_says_so_and_recovers(
    database: TestDatabase,
) -> None:
    async with database.operator() as operator:
        await operator.execute(f"ALTER ROLE {database.name} CONNECTION LIMIT 0")
        reason = await why_it_cannot_open(PostgresStore(database.options))
        assert "has no connection left" in reason
        assert "sql.maxConnections" in reason
        await operator.execute(f"ALTER ROLE {database.name} CONNECTION LIMIT 1")
        async with opened(PostgresStore(database.options)) as store:
            term = await own(store)
            with pytest.raises(StoreUnavailable, match="has no connection left"):
                await store.read_head("demo", "news")
            assert await store.append([append(message(1), term)]) == [None]
            await operator.execute(f"ALTER ROLE {database.name} CONNECTION LIMIT 2")
            while True:
                try:
                    page = await store.read_after("demo", "news", 0, 9)
                    break
                except StoreUnavailable:
                    await asyncio.sleep(0.02)
            assert serials(page) == [1]


@pytest.mark.spec("OPS-03")
async def test_a_user_who_may_not_create_tables_is_told_so(database: TestDatabase) -> None:
    async with database.operator() as operator:
        await operator.execute(f"ALTER SCHEMA {database.name} RENAME TO {database.name}_away")
    reason = await why_it_cannot_open(PostgresStore(database.options))
    assert "let the user create" in reason or "no schema" in reason, reason
