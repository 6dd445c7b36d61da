"""Data folders that something has happened to: each is refused with a remedy, or its data is right.

What the store does with a locked, foreign or newer file is proven in tests/contract.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from harness.data_folder import (
    KEPT,
    as_version_1,
    fill,
    history,
    post,
    run_hubbub,
    running,
    serials,
    tree,
    without_the_power_of_root,
)
from harness.running_hub import hub_settings, open_hub
from hubbub.domain.errors import STORE_FULL, StoreUnavailable
from hubbub.server.wiring import Server
from hubbub.storage.sql.schema import SQLITE, load_migrations
from hubbub.storage.sqlite.store import SqliteStore

PAGE = 4096
GARBAGE = bytes(range(256)) * (PAGE // 256)

pytestmark = pytest.mark.spec("OPS-03")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


async def why_it_does_not_start(folder: Path) -> str:
    server = Server(hub_settings(folder, open_hub(namespaces={"log": KEPT})))
    with pytest.raises(StoreUnavailable) as refused:
        await server.start()
    assert server.port == 0
    assert str(folder) not in refused.value.message
    return str(refused.value)


# -- damage -----------------------------------------------------------------------------------


def overwrite(path: Path, offset: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset, os.SEEK_SET if offset >= 0 else os.SEEK_END)
        file.write(content)


def spoil_last_page(database: Path) -> None:
    overwrite(database, -PAGE, GARBAGE)


def spoil_first_page_behind_its_header(database: Path) -> None:
    overwrite(database, 100, GARBAGE[: PAGE - 100])


def spoil_header(database: Path) -> None:
    overwrite(database, 0, GARBAGE[:100])


def cut_in_half(database: Path) -> None:
    os.truncate(database, database.stat().st_size // 2 // PAGE * PAGE)


def cut_last_page(database: Path) -> None:
    os.truncate(database, database.stat().st_size - PAGE)


def empty(database: Path) -> None:
    os.truncate(database, 0)


def remove(database: Path) -> None:
    database.unlink()


def lose_all_but_the_log(database: Path) -> None:
    database.with_name("hubbub.db-wal").write_bytes(GARBAGE)
    database.with_name("hubbub.db.lock").unlink()
    database.unlink()


@pytest.mark.parametrize(
    ("damage", "reason", "remedy"),
    [
        (spoil_last_page, "is damaged", "restore a backup"),
        (spoil_first_page_behind_its_header, "is damaged", "restore a backup"),
        (spoil_header, "is not a Hubbub database", "move it away or choose another"),
        (cut_in_half, "is damaged", "restore a backup"),
        (cut_last_page, "is damaged", "restore a backup"),
        (empty, "is empty, though this folder held a store", "restore a backup"),
        (remove, "is missing, though this folder held a store", "restore a backup"),
        (lose_all_but_the_log, "is missing but hubbub.db-wal holds", "restore a backup"),
    ],
)
async def test_damaged_data_is_refused_with_a_remedy_and_left_alone(
    tmp_path: Path, data: Path, damage: Callable[[Path], None], reason: str, remedy: str
) -> None:
    await fill(tmp_path)
    damage(data / "hubbub.db")
    before = tree(data)
    message = await why_it_does_not_start(tmp_path)
    assert str(data / "hubbub.db") in message
    assert reason in message
    assert remedy in message
    after = tree(data)
    for name in ("hubbub.db", "hubbub.db-wal", "secrets.json"):
        if name in before:
            assert after.get(name) == before[name]
        else:
            assert not (data / name).exists() or (data / name).stat().st_size == 0


async def test_after_the_remedy_the_hub_starts_again(tmp_path: Path, data: Path) -> None:
    await fill(tmp_path, 20)
    shutil.copyfile(data / "hubbub.db", tmp_path / "good.db")
    spoil_last_page(data / "hubbub.db")
    assert "damaged" in await why_it_does_not_start(tmp_path)
    shutil.copyfile(tmp_path / "good.db", data / "hubbub.db")
    async with running(tmp_path) as hub:
        assert serials(await history(hub, "log:a", after=0)) == list(range(1, 21))


async def test_an_empty_store_in_place_of_a_lost_one_has_to_be_asked_for(
    tmp_path: Path, data: Path
) -> None:
    await fill(tmp_path, 5)
    (data / "hubbub.db").unlink()
    assert "remove hubbub.db.lock" in await why_it_does_not_start(tmp_path)
    (data / "hubbub.db.lock").unlink()
    async with running(tmp_path) as hub:
        assert (await history(hub, "log:a"))["messages"] == []


async def test_the_database_of_another_program_is_not_touched(tmp_path: Path, data: Path) -> None:
    data.mkdir()
    with closing(sqlite3.connect(data / "hubbub.db")) as other:
        other.execute("CREATE TABLE books (title TEXT)")
        other.commit()
    before = tree(data)["hubbub.db"]
    assert "a database of another program" in await why_it_does_not_start(tmp_path)
    assert tree(data)["hubbub.db"] == before


async def test_damaged_or_open_signing_keys_are_refused_by_the_command(
    tmp_path: Path, data: Path
) -> None:
    await fill(tmp_path, 1)
    environment = ("serve", "--config", write_config(tmp_path, data))
    keys = data / "secrets.json"
    keys.chmod(0o644)
    refused = run_hubbub(*environment)
    assert refused.returncode == 2
    assert f"chmod 600 {keys}" in refused.stderr
    keys.chmod(0o600)
    keys.write_text("{}")
    refused = run_hubbub(*environment)
    assert refused.returncode == 2
    assert "restore it from a backup" in refused.stderr
    assert "Traceback" not in refused.stderr


async def test_missing_signing_keys_are_made_anew_with_a_word_and_old_tokens_do_not_hold(
    tmp_path: Path, data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as hub:
        token = hub.token("ann")
    (data / "secrets.json").unlink()
    with caplog.at_level("INFO", "hubbub"):
        async with running(tmp_path) as hub:
            refused = await hub.raw_socket(query=f"?token={token}")
            assert (await refused.closed())[0] == 4411
    assert f"created new signing keys in {data / 'secrets.json'}" in caplog.text


def write_config(folder: Path, data: Path) -> Path:
    path = folder / "hubbub.yaml"
    path.write_text(f"listener: {{port: 0}}\nstorage: {{path: {data}}}\n")
    return path


# -- the log of what was committed last -------------------------------------------------------


async def crashed_copy(folder: Path, count: int) -> Path:
    """The data folder of a hub that was cut off: its last writes are in the log only."""
    async with running(folder) as hub:
        for number in range(1, count + 1):
            assert (await post(hub, "log:a", f"message {number}"))["channelSerial"] == str(number)
        shutil.copytree(folder / "data", folder / "crashed" / "data")
    return folder / "crashed"


@pytest.mark.parametrize("share", [0.0, 0.5, 0.97, 1.0])
async def test_a_truncated_log_leaves_a_prefix_without_gaps_and_numbers_go_on(
    tmp_path: Path, share: float
) -> None:
    """What SQLite finds after the last whole transaction is not trusted. A client that has seen
    more than is left is told that it cannot be brought up to date."""
    crashed = await crashed_copy(tmp_path, 40)
    log = crashed / "data" / "hubbub.db-wal"
    os.truncate(log, int(log.stat().st_size * share))
    if share == 0:
        assert "log:a" not in (crashed / "data" / "hubbub.db").read_bytes().decode("latin-1")
    async with running(crashed) as hub:
        page = await history(hub, "log:a", after=0)
        head = int(page["head"])
        assert serials(page) == list(range(1, head + 1))
        assert head == 40 if share == 1 else head < 40
        ahead = await history(hub, "log:a", after=40, epoch=page["epoch"])
        assert ahead["recovered"] is (share == 1)
        assert (await post(hub, "log:a", "next"))["channelSerial"] == str(head + 1)


# -- permissions ------------------------------------------------------------------------------


def close_folder(data: Path) -> None:
    data.chmod(0o555)


def close_database(data: Path) -> None:
    (data / "hubbub.db").chmod(0)


def write_protect_database(data: Path) -> None:
    (data / "hubbub.db").chmod(0o400)


@pytest.mark.parametrize(
    ("protect", "remedy"),
    [
        (close_folder, "may write to"),
        (close_database, "check that the hub's user may read and write it"),
        (write_protect_database, "check its permissions"),
    ],
)
async def test_data_that_may_not_be_written_is_refused_by_the_command(
    tmp_path: Path, data: Path, protect: Callable[[Path], None], remedy: str
) -> None:
    await fill(tmp_path, 3)
    (data / "hubbub.db.lock").unlink()
    protect(data)
    config = write_config(tmp_path, data)
    refused = run_hubbub("serve", "--config", config, before=without_the_power_of_root)
    data.chmod(0o700)
    assert refused.returncode == 1
    assert str(data) in refused.stderr
    assert remedy in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_data_folder_that_cannot_be_made_is_refused_by_the_command(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    config = write_config(tmp_path, tmp_path / "file" / "data")
    refused = run_hubbub("serve", "--config", config)
    assert refused.returncode == 1
    assert "choose another (storage.path)" in refused.stderr
    assert "Traceback" not in refused.stderr


async def test_what_is_stored_is_for_its_owner_only(tmp_path: Path, data: Path) -> None:
    data.mkdir(mode=0o755)
    async with running(tmp_path) as hub:
        await post(hub, "log:a", "private")
        modes = {path.name: path.stat().st_mode & 0o077 for path in data.iterdir()}
    assert modes
    assert not any(modes.values()), modes


# -- no room ----------------------------------------------------------------------------------


async def test_a_full_disk_refuses_what_must_be_stored_and_serves_the_rest(
    small_disk: Path,
) -> None:
    async with running(small_disk) as hub:
        stored = 0
        while (answer := await post(hub, "log:a", "x" * 50_000))["status"] == 200:
            stored += 1
        assert answer["status"] == 503
        assert answer["error"]["code"] == "store_unavailable"
        assert answer["error"]["message"] == STORE_FULL, "the path is for the log"
        assert (await post(hub, "news", "live goes on"))["status"] == 200
        kept: list[int] = []
        while found := serials(await history(hub, "log:a", after=kept[-1] if kept else 0)):
            kept += found
        assert kept == list(range(1, stored + 1))
        async with hub.http.get("/healthz") as health:
            assert health.status == 200
        subprocess.run(["mount", "-o", "remount,size=8m", str(small_disk)], check=True)
        assert (await post(hub, "log:a", "room again"))["channelSerial"] == str(stored + 1)


async def test_a_hub_on_a_disk_without_any_room_says_so_at_its_start(small_disk: Path) -> None:
    free = os.statvfs(small_disk)
    (small_disk / "ballast").write_bytes(b"x" * free.f_bavail * free.f_bsize)
    config = write_config(small_disk.parent, small_disk / "data")
    refused = run_hubbub("serve", "--config", config)
    assert refused.returncode != 0
    assert "space" in refused.stderr
    assert "Traceback" not in refused.stderr


# -- versions ---------------------------------------------------------------------------------


async def test_an_older_store_is_upgraded_with_a_word_and_a_copy_is_kept(
    tmp_path: Path, data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data.mkdir()
    as_version_1(data / "hubbub.db")
    newest = load_migrations(SQLITE)[-1].version
    async with running(tmp_path) as hub:
        assert serials(await history(hub, "log:a", after=0)) == [1, 2, 3]
        assert (await post(hub, "log:a", "new"))["channelSerial"] == "4"
    (kept,) = (data / "before-upgrade").iterdir()
    (said,) = [r.getMessage() for r in caplog.records if "upgraded" in r.getMessage()]
    assert said == (
        f"upgraded {data / 'hubbub.db'} from schema version 1 to {newest}; as it was before, it"
        f" is kept in {kept}"
    )
    with closing(sqlite3.connect(kept)) as copy:
        assert copy.execute("SELECT max(version) FROM schema_versions").fetchone() == (1,)
        assert copy.execute("SELECT head FROM channels").fetchone() == (3,)
    caplog.clear()
    async with running(tmp_path):
        pass
    assert not [r for r in caplog.records if "upgraded" in r.getMessage()]


async def test_an_upgrade_that_fails_changes_nothing(tmp_path: Path, data: Path) -> None:
    data.mkdir()
    as_version_1(data / "hubbub.db")
    with closing(sqlite3.connect(data / "hubbub.db")) as connection:
        connection.execute("CREATE TABLE audit (mine TEXT)")
        connection.commit()
    assert "audit" in await why_it_does_not_start(tmp_path)
    with closing(sqlite3.connect(data / "hubbub.db")) as connection:
        assert connection.execute("SELECT max(version) FROM schema_versions").fetchone() == (1,)
    assert list((data / "before-upgrade").iterdir()) == []


async def test_without_a_copy_there_is_no_upgrade(tmp_path: Path, data: Path) -> None:
    data.mkdir()
    as_version_1(data / "hubbub.db")
    (data / "before-upgrade").write_text("in the way")
    before = tree(data)["hubbub.db"]
    message = await why_it_does_not_start(tmp_path)
    assert "no copy of it can be kept first" in message
    assert tree(data)["hubbub.db"] == before


async def test_a_store_too_large_to_check_in_time_is_said_to_be(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for seconds, expected in ((5.0, 0), (0.0, 1), (5.0, 0)):
        caplog.clear()
        store = SqliteStore(tmp_path / "hubbub.db", check_seconds=seconds)
        await store.open()
        await store.close()
        said = [r for r in caplog.records if "every backup checks all" in r.getMessage()]
        assert len(said) == expected
