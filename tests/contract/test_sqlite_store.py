"""The store's contract on SQLite, and what only an embedded database file can go through."""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

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
from hubbub.domain.errors import STORE_FULL, Conflict, StoreUnavailable
from hubbub.ports.storage.messages import ChannelHead, Deleted
from hubbub.storage.sql.fair_queue import QueueLimits
from hubbub.storage.sql.schema import SQLITE, Migration, load_migrations
from hubbub.storage.sqlite.connection import migrate
from hubbub.storage.sqlite.store import SqliteStore

NEWEST = load_migrations(SQLITE)[-1].version


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "hubbub.db"


def change(path: Path, *statements: str) -> None:
    """Edit a database that no hub has open."""
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def schema(path: Path) -> set[tuple[str, ...]]:
    """Tables with their columns, and indexes, of a database that no hub has open."""
    connection = sqlite3.connect(path)
    columns = connection.execute(
        'SELECT t.name, c.name, c.type, c."notnull", c.dflt_value, c.pk'
        " FROM sqlite_master t, pragma_table_info(t.name) c WHERE t.type = 'table'"
    ).fetchall()
    indexes = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'index'")
    found = {*columns, *indexes.fetchall()}
    connection.close()
    return found


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def make_store(self, path: Path) -> MakeStore:
        return lambda: SqliteStore(path)

    @pytest.fixture
    def query(self, path: Path) -> Query:
        async def query(statement: str) -> list[tuple[Any, ...]]:
            with closing(sqlite3.connect(path)) as connection:
                return connection.execute(statement).fetchall()

        return query


# -- crashes ----------------------------------------------------------------------------------


@pytest.mark.spec("LIVE-12", "OPS-03")
@pytest.mark.parametrize("whole_group", [True, False], ids=["with its workers", "alone"])
async def test_a_killed_hub_loses_nothing_it_acknowledged(path: Path, whole_group: bool) -> None:
    script = Path(__file__).with_name("sqlite_crashing_hub.py")
    hub = subprocess.Popen(
        [sys.executable, str(script), str(path)], stdout=subprocess.PIPE, start_new_session=True
    )
    assert hub.stdout is not None
    with hub.stdout:
        lines = [hub.stdout.readline() for _ in range(40)]
        if whole_group:
            os.killpg(hub.pid, signal.SIGKILL)
        else:
            hub.kill()
        lines += hub.stdout.readlines()
        hub.wait()
    acknowledged = [int(line) for line in lines if line.endswith(b"\n")][-1]
    assert acknowledged >= 200
    async with opened(SqliteStore(path)) as store:
        page = await store.read_after("demo", "news", 0, 100_000)
    assert page.head is not None
    assert page.head.head >= acknowledged
    assert page.head.head % 5 == 0, "a call is stored as a whole"
    assert serials(page) == list(range(1, page.head.head + 1))


@pytest.mark.spec("OPS-03")
async def test_a_killed_writer_is_replaced_and_no_write_is_lost_or_doubled(path: Path) -> None:
    async with opened(SqliteStore(path)) as store:
        term = await own(store)

        async def publish(channel: str) -> None:
            for serial in range(1, 61):
                assert await store.append([append(message(serial, channel), term)]) == [None]
                if channel == "c0" and serial in (20, 40):
                    os.kill(store.worker_pids[0], signal.SIGKILL)

        await asyncio.gather(*(publish(f"c{n}") for n in range(20)))
        for n in range(20):
            page = await store.read_after("demo", f"c{n}", 0, 100)
            assert serials(page) == list(range(1, 61))
        assert await store.stored_bytes("demo") == 20 * 60 * 10


async def test_a_write_that_was_committed_but_not_answered_is_answered_once(path: Path) -> None:
    """The writer dies between its commit and the hub's reading of the answer."""
    async with opened(SqliteStore(path)) as store:
        term = await own(store)
        process = store._writer._process
        assert process is not None
        unread: list[bytes] = []

        def lose_the_answer(body: bytes) -> None:
            unread.append(body)
            os.kill(process.pid, signal.SIGKILL)

        process._on_frame = lose_the_answer
        results = await store.append([append(message(1), term), append(message(5), term)])
        assert len(unread) == 1
        assert results[0] is None
        assert isinstance(results[1], Conflict)
        assert store.worker_pids[0] != process.pid
        assert serials(await store.read_after("demo", "news", 0, 10)) == [1]
        assert await store.append([append(message(2), term)]) == [None]


async def test_a_write_that_a_dying_writer_never_began_is_done_by_the_next(path: Path) -> None:
    async with opened(SqliteStore(path)) as store:
        term = await own(store)
        writer = store.worker_pids[0]
        os.kill(writer, signal.SIGSTOP)
        call = asyncio.ensure_future(store.append([append(message(1), term)]))
        await asyncio.sleep(0)
        os.kill(writer, signal.SIGKILL)
        assert await call == [None]
        assert serials(await store.read_after("demo", "news", 0, 10)) == [1]


async def test_writes_are_refused_while_no_writer_can_start_and_work_again_later(
    path: Path,
) -> None:
    async with opened(SqliteStore(path, lock_patience_seconds=0)) as store:
        term = await own(store)
        lock = path.with_name(path.name + ".lock")
        away = lock.with_name("away")
        lock.rename(away)
        lock.mkdir()
        os.kill(store.worker_pids[0], signal.SIGKILL)
        with pytest.raises(StoreUnavailable, match="cannot write in the folder"):
            await store.append([append(message(1), term)])
        assert await store.read_head("demo", "news") is None
        lock.rmdir()
        restart = store._writer._restart_task
        assert restart is not None
        await restart
        assert await store.append([append(message(1), term)]) == [None]


async def test_a_killed_reader_is_replaced_and_its_reads_are_answered(path: Path) -> None:
    async with opened(SqliteStore(path)) as store:
        await fill(store, 3)
        os.kill(store.worker_pids[1], signal.SIGKILL)
        pages = [store.read_after("demo", "news", 0, 10) for _ in range(50)]
        assert [serials(page) for page in await asyncio.gather(*pages)] == [[1, 2, 3]] * 50


async def test_signals_to_the_whole_group_leave_the_workers_to_the_hub(path: Path) -> None:
    async with opened(SqliteStore(path)) as store:
        for pid in store.worker_pids:
            os.kill(pid, signal.SIGINT)
            os.kill(pid, signal.SIGTERM)
        before = store.worker_pids
        await fill(store, 1)
        assert await store.read_head("demo", "news") == ChannelHead(EPOCH, 1, 1)
        assert store.worker_pids == before


async def test_closing_ends_the_processes(path: Path) -> None:
    async with opened(SqliteStore(path)) as store:
        pids = store.worker_pids
    assert len(pids) == 2
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_it_also_runs_on_the_standard_event_loop(path: Path) -> None:
    async def scenario() -> list[int]:
        async with opened(SqliteStore(path)) as store:
            await fill(store, 3)
            return serials(await store.read_after("demo", "news", 0, 10))

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        assert runner.run(scenario()) == [1, 2, 3]


# -- files that cannot be used ----------------------------------------------------------------


async def test_a_second_process_on_the_same_file_is_refused(path: Path) -> None:
    async with opened(SqliteStore(path)) as first:
        second = SqliteStore(path, lock_patience_seconds=0)
        reason = await why_it_cannot_open(second)
        assert second.worker_pids == ()
        assert str(path) in reason
        assert "another hub process" in reason
        await fill(first, 1)
    async with opened(second):
        assert await second.read_head("demo", "news") == ChannelHead(EPOCH, 1, 1)


async def test_data_of_a_newer_version_is_refused_with_a_remedy(path: Path) -> None:
    async with opened(SqliteStore(path)) as store:
        await fill(store, 1)
    change(path, f"INSERT INTO schema_versions VALUES ({NEWEST + 1}, 0)")
    reason = await why_it_cannot_open(SqliteStore(path))
    assert f"schema version {NEWEST + 1}" in reason
    assert "run the newer Hubbub" in reason
    change(path, f"DELETE FROM schema_versions WHERE version = {NEWEST + 1}")
    async with opened(SqliteStore(path)) as store:
        assert await store.read_head("demo", "news") == ChannelHead(EPOCH, 1, 1)


@pytest.mark.spec("OPS-03")
async def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"these are not the bytes of a database " * 1000)
    before = path.read_bytes()
    reason = await why_it_cannot_open(SqliteStore(path))
    assert str(path) in reason
    assert "not a Hubbub database" in reason
    assert path.read_bytes() == before


@pytest.mark.spec("OPS-03")
async def test_a_damaged_database_says_so(path: Path) -> None:
    async with opened(SqliteStore(path)) as store:
        await fill(store, 500)
    data = path.read_bytes()
    path.write_bytes(data[:4096] + b"\xa5" * (len(data) - 4096))
    store = SqliteStore(path)
    with pytest.raises(StoreUnavailable, match="damaged"):
        async with opened(store):
            await store.read_after("demo", "news", 0, 10)
    assert store.worker_pids == ()


def _without_the_power_of_root() -> None:
    """Root may write anywhere; give up the two capabilities that allow it."""
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


@pytest.mark.spec("OPS-03")
def test_a_folder_that_cannot_be_written_is_refused_with_a_remedy(tmp_path: Path) -> None:
    folder = tmp_path / "fixed"
    folder.mkdir(mode=0o555)
    code = (
        "import asyncio, pathlib, sys; from hubbub.storage.sqlite.store import SqliteStore;"
        "asyncio.run(SqliteStore(pathlib.Path(sys.argv[1])).open())"
    )
    hub = subprocess.run(
        [sys.executable, "-c", code, str(folder / "hubbub.db")],
        capture_output=True,
        text=True,
        preexec_fn=_without_the_power_of_root,
    )
    assert f"StoreUnavailable: cannot write in the folder {folder}" in hub.stderr
    assert "the hub's user may write to" in hub.stderr


@pytest.mark.spec("OPS-03")
async def test_a_full_disk_refuses_writes_keeps_the_rest_and_recovers(path: Path) -> None:
    async with opened(SqliteStore(path, max_bytes=1_000_000)) as store:
        term = await own(store)
        calls = [
            store.append([append(message(n, payload=b"x" * 20_000), term)]) for n in range(1, 20)
        ]
        assert await asyncio.gather(*calls) == [[None]] * 19
        stored = 19
        large = append(message(20, payload=b"x" * 1_000_000), term)
        with pytest.raises(StoreUnavailable, match="is full: free disk space") as refused:
            await store.append([large])
        assert str(path) in str(refused.value)
        assert refused.value.message == STORE_FULL
        page = await store.read_after("demo", "news", 0, 1000)
        assert serials(page) == list(range(1, stored + 1))
        deleted = await store.delete_before("demo", "news", stored, PARTITION, term)
        assert deleted == Deleted(stored - 1, 20_000 * (stored - 1), stored)
        assert await store.append([append(message(stored + 1), term)]) == [None]


@pytest.mark.spec("OPS-03")
async def test_the_unique_index_is_a_backstop_that_harms_only_its_own_channel(path: Path) -> None:
    async with opened(SqliteStore(path)) as store:
        await fill(store, 2, "wrong")
    change(path, "UPDATE channels SET head = 1 WHERE name = 'wrong'")
    async with opened(SqliteStore(path)) as store:
        term = await own(store)
        calls = [store.append([append(message(2, "wrong"), term)])]
        calls += [store.append([append(message(1, f"right{n}"), term)]) for n in range(5)]
        (wrong,), *right = await asyncio.gather(*calls)
        assert isinstance(wrong, Conflict)
        assert right == [[None]] * 5
        assert await store.stored_bytes("demo") == 70


# -- schema -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(NEWEST))
async def test_every_older_version_is_brought_up_to_date(path: Path, version: int) -> None:
    path.parent.mkdir()
    if version:
        connection = sqlite3.connect(path, isolation_level=None)
        migrate(connection, path, load_migrations(SQLITE)[:version])
        connection.close()
    async with opened(SqliteStore(path)) as store:
        await fill(store, 1)
    fresh = path.with_name("fresh.db")
    async with opened(SqliteStore(fresh)):
        pass
    assert schema(path) == schema(fresh)


@pytest.mark.spec("LIVE-22")
async def test_rules_of_the_version_before_keep_their_live_history(path: Path) -> None:
    """Rules that omitted it had none; now they would have one for clients that come back."""
    migrations = load_migrations(SQLITE)
    before = before_live_history(migrations)
    path.parent.mkdir()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        migrate(connection, path, migrations[:before])
        for name, value in RULES_OF_BEFORE.items():
            connection.execute(
                "INSERT INTO settings VALUES ('rules', 'acme', ?, ?, 1)", (name, value)
            )
    async with opened(SqliteStore(path)) as store:
        assert await live_histories(store) == {"none": False, "some": False, "kept": True}


async def test_the_next_version_keeps_what_is_there_and_comes_all_or_nothing(path: Path) -> None:
    async with opened(SqliteStore(path)) as store:
        await fill(store, 3)
    migrations = load_migrations(SQLITE)
    good = "ALTER TABLE channels ADD COLUMN note TEXT NOT NULL DEFAULT 'none'"
    connection = sqlite3.connect(path, isolation_level=None)
    broken = Migration(NEWEST + 1, (good, "ALTER TABLE nowhere ADD COLUMN x TEXT"))
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection, path, (*migrations, broken))
    (version,) = connection.execute("SELECT max(version) FROM schema_versions").fetchone()
    assert version == NEWEST
    migrate(connection, path, (*migrations, Migration(NEWEST + 1, (good,))))
    rows = connection.execute("SELECT name, head, note FROM channels").fetchall()
    connection.close()
    assert rows == [("news", 3, "none")]


async def test_the_bytes_of_channels_that_were_there_before_are_counted(path: Path) -> None:
    migrations = load_migrations(SQLITE)
    counting = next(m.version for m in migrations if "stored_bytes" in m.statements[0])
    later = "".join(text for m in migrations[counting:] for text in m.statements)
    made_since = re.findall(r"CREATE (?:VIRTUAL )?TABLE (\w+)", later)
    added_since = re.findall(r"ALTER TABLE (\w+) ADD COLUMN (\w+)", later)
    indexed_since = re.findall(r"CREATE (?:UNIQUE )?INDEX (\w+)", later)
    counting_since = re.findall(r"CREATE TRIGGER (\w+)", later)
    async with opened(SqliteStore(path)) as store:
        await fill(store, 3)
        await fill(store, 2, "other")
    change(
        path,
        *(f"DROP TRIGGER {trigger}" for trigger in counting_since),
        *(f"DROP INDEX {index}" for index in indexed_since),
        "ALTER TABLE channels DROP COLUMN stored_bytes",
        *(f"ALTER TABLE {table} DROP COLUMN {column}" for table, column in added_since),
        *(f"DROP TABLE {table}" for table in made_since),
        f"DELETE FROM schema_versions WHERE version >= {counting}",
    )
    connection = sqlite3.connect(path, isolation_level=None)
    migrate(connection, path, migrations[:counting])
    connection.close()
    async with opened(SqliteStore(path)) as store:
        found = await store.read_channels("demo", "", 9)
    assert [(each.name, each.stored_bytes) for each in found] == [("news", 30), ("other", 20)]


# -- bounds -----------------------------------------------------------------------------------


async def test_a_flood_of_one_hub_is_refused_while_another_is_served(path: Path) -> None:
    limits = QueueLimits(pending_weight=100, lane_share=0.5)
    async with opened(SqliteStore(path, limits=limits)) as store:
        term = await own(store)
        flood = [store.append([append(message(n, hub="loud"), term)]) for n in range(1, 201)]
        quiet = store.append([append(message(1, hub="quiet"), term)])
        *results, answer = await asyncio.gather(*flood, quiet, return_exceptions=True)
        assert answer == [None]
        refused = [result for result in results if isinstance(result, StoreUnavailable)]
        assert len(refused) == 150
        assert "'loud'" in str(refused[0])
        head = await store.read_head("loud", "news")
        assert head == ChannelHead(EPOCH, 50, 1)


@pytest.mark.spec("SEC-01", "LIVE-13")
async def test_large_messages_make_pages_shorter_but_never_empty(path: Path) -> None:
    async with opened(SqliteStore(path, page_bytes=25)) as store:
        await fill(store, 5)
        page = await store.read_after("demo", "news", 0, 100)
        assert (serials(page), page.more) == ([1, 2], True)
        page = await store.read_before("demo", "news", None, 100)
        assert (serials(page), page.more) == ([4, 5], True)
    async with opened(SqliteStore(path, page_bytes=1)) as store:
        page = await store.read_before_time("demo", "news", 3000, 100)
        assert (serials(page), page.more) == ([2], True)
        page = await store.read_after("demo", "news", 4, 100)
        assert (serials(page), page.more) == ([5], False)


@pytest.mark.spec("CMD-07")
async def test_conversations_of_an_older_store_are_indexed_once(path: Path) -> None:
    async with opened(SqliteStore(path)) as store:
        await fill_with_threads(store)
    for statement in WITHOUT_INDEX:
        change(path, statement)
    async with opened(SqliteStore(path)) as store:
        await index_in_the_midst_of_appends(store)


async def test_what_an_older_version_deleted_leaves_the_index(path: Path) -> None:
    async with opened(SqliteStore(path)) as store:
        await fill_with_threads(store)
    for statement in DELETED_WITHOUT_INDEX:
        change(path, statement)
    async with opened(SqliteStore(path)) as store:
        await index_after_a_deletion(store)
