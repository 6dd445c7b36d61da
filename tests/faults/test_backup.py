"""Backups of a running hub, and restores that happen as a whole or not at all."""

from __future__ import annotations

import asyncio
import gzip
import io
import itertools
import json
import os
import shutil
import signal
import sys
import tarfile
from base64 import urlsafe_b64encode
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from harness.admin import HUB, admin_of
from harness.data_folder import (
    as_version_1,
    fill,
    history,
    post,
    run_hubbub,
    running,
    serials,
    texts,
    tree,
)
from harness.running_hub import RunningHub
from harness.topics import HttpTopic
from harness.topics import texts as topic_texts
from hubbub.engine.webhooks.service import Webhooks
from hubbub.server.backup.archive import BackupError
from hubbub.server.backup.making import back_up
from hubbub.server.backup.restore import complete_restore, restore
from hubbub.storage.sqlite.copies import LeftOut

pytestmark = pytest.mark.spec("OPS-03", "OPS-04")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
async def archive(tmp_path: Path, data: Path) -> Path:
    """A backup of 20 messages in `log:a`, with the signing keys, whose folder lives on."""
    await fill(tmp_path, 20, size=10)
    return back_up(data, tmp_path / "backup.tar.gz", with_secrets=True)[0]


def why_not(work: Callable[[], object]) -> str:
    with pytest.raises(BackupError) as refused:
        work()
    return str(refused.value)


async def secretive(hub: RunningHub) -> None:
    """A hub with secrets of every kind, and one that was deleted."""
    admin = admin_of(hub)

    async def ask(method: str, path: str, body: Any = None) -> Any:
        reply = await admin(method, path, body)
        assert reply.status < 300, reply.text
        return reply.json

    settings = await ask("GET", f"{HUB}/settings")
    await ask("PUT", f"{HUB}/settings", {**settings, "callbackAddresses": "loopback"})
    target = {"url": "http://127.0.0.1:9/", "addresses": "loopback"}
    vault = {"method": "vault.*", "headers": {"X-Key": "route-secret"}, **target}
    await ask("PUT", f"{HUB}/rpc-routes/vault", vault)
    await ask("PUT", f"{HUB}/auth-providers/door", {"headers": {"X": "door-secret"}, **target})
    hooks = "/v1/hubs/acme/webhooks"
    for more in (
        {},
        {"secret": "signing-secret"},
        {"key": urlsafe_b64encode(b"a-new-one".ljust(16)).decode().rstrip("=")},
    ):
        callback = f"http://127.0.0.1:9/{next(iter(more), '')}"
        await ask("POST", hooks, {"channel": "log:a", "callback": callback, **more})
    gone = {"channel": "log:a", "callback": "http://127.0.0.1:9/gone", "secret": "deleted-secret"}
    made = await ask("POST", hooks, gone)
    await ask("DELETE", f"{hooks}/{made['id']}")


def unpacked(path: Path) -> bytes:
    with tarfile.open(path) as tar:
        return b"".join(tar.extractfile(member).read() for member in tar)  # type: ignore[union-attr]


# -- while the hub runs -----------------------------------------------------------------------


async def test_a_backup_taken_under_load_holds_a_moment_and_holds_up_nobody(
    tmp_path: Path, data: Path
) -> None:
    """The command works on the files of a hub that goes on storing."""
    async with running(tmp_path) as hub:
        acknowledged = 0
        begun, done = asyncio.Event(), asyncio.Event()

        async def publish() -> None:
            nonlocal acknowledged
            while not done.is_set():
                serial = (await post(hub, "log:a", "x" * 2000))["channelSerial"]
                acknowledged = int(serial)
                if acknowledged >= 50:
                    begun.set()

        publishing = asyncio.ensure_future(publish())
        await begun.wait()
        at_least = acknowledged
        target = tmp_path / "backup.tar.gz"
        made = await asyncio.to_thread(run_hubbub, "backup", target, "--data", data, "--json")
        at_most = acknowledged
        done.set()
        await publishing
    assert made.returncode == 0, made.stderr
    assert at_most > at_least, "stored messages were acknowledged during the backup"
    assert json.loads(made.stdout)["archive"] == str(target)
    restore(target, tmp_path / "other" / "data")
    async with running(tmp_path / "other") as hub:
        head = int((await history(hub, "log:a"))["head"])
        assert at_least <= head <= at_most + 1
        found: list[int] = []
        while len(found) < head:
            found += serials(await history(hub, "log:a", after=len(found)))
        assert found == list(range(1, head + 1))


async def test_a_durable_subscription_goes_on_where_it_stood_in_the_backup(
    tmp_path: Path, data: Path
) -> None:
    """The channel's epoch is a new one; everything would be new to a cursor of the old one."""
    async with running(tmp_path) as hub:
        topic = HttpTopic(hub, "log:a", hub.token("ann"))
        await topic.subscribe(start="first")
        for n in range(1, 6):
            await topic.put(str(n))
        await topic.get(limit=3)
        await topic.ack(upTo="3")
        archive = back_up(data, tmp_path / "backup.tar.gz", with_secrets=True)[0]
    restore(archive, tmp_path / "other" / "data")
    async with running(tmp_path / "other") as hub:
        topic = HttpTopic(hub, "log:a", hub.token("ann"))
        assert topic_texts(await topic.get(limit=10)) == ["4", "5"]


async def test_the_log_of_a_crashed_hub_is_part_of_its_backup(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        await post(hub, "log:a", "one")
        shutil.copytree(tmp_path / "data", tmp_path / "crashed")
    back_up(tmp_path / "crashed", tmp_path / "backup.tar.gz")
    restore(tmp_path / "backup.tar.gz", tmp_path / "other" / "data")
    async with running(tmp_path / "other") as hub:
        assert texts(await history(hub, "log:a")) == ["one"]


# -- there and back ---------------------------------------------------------------------------


async def test_a_restored_hub_has_its_messages_states_and_keys_but_a_new_epoch(
    tmp_path: Path, data: Path
) -> None:
    """What came after the backup is gone, so its serials must not be taken for new messages'."""
    async with running(tmp_path) as hub:
        await post(hub, "log:a", "one")
        await post(hub, "log:a", "two", retain="true")
        token = hub.token("ann")
        path, _ = back_up(data, tmp_path / "backup.tar.gz", with_secrets=True)
        await post(hub, "log:a", "three, which the backup has not")
        before = await history(hub, "log:a")
        seen = {"serial": before["head"], "epoch": before["epoch"]}
        ann = await hub.socket(token=token)
        key = (await ann.expect("SessionRestore"))["restoreKey"]
    restored = restore(path, data, force=True)
    assert restored.kept is not None
    async with running(tmp_path) as hub:
        page = await history(hub, "log:a")
        assert texts(page) == ["one", "two"]
        assert page["epoch"] != before["epoch"]
        ann = await hub.socket(token=token)
        await ann.expect("SessionRestore")
        (confirmed,) = (await ann.subscribe("log:a", **seen))["channels"]
        assert confirmed["recovered"] is False
        (retained,) = [await ann.find("Publish")]
        assert retained["payload"] == {"text": "two"}
        assert (await post(hub, "log:a", "another three"))["channelSerial"] == "3"
        back = await hub.socket()
        await back.send("SessionRestore", restoreKey=key)
        assert (await back.find("Error"))["error"]["code"] == "restore_failed"


async def test_without_secrets_an_archive_has_none_and_a_folder_keeps_its_own(
    tmp_path: Path, data: Path
) -> None:
    await fill(tmp_path, 3, size=10)
    plain, manifest = back_up(data, tmp_path)
    assert plain.name.startswith("hubbub-")
    assert list(manifest.files) == ["hubbub.db"]
    keys = (data / "secrets.json").read_bytes()
    restore(plain, data, force=True)
    assert (data / "secrets.json").read_bytes() == keys
    said = run_hubbub("restore", plain, "--data", tmp_path / "new")
    assert said.returncode == 0
    assert "no signing keys are in this folder" in said.stdout
    assert not (tmp_path / "new" / "secrets.json").exists()


@pytest.mark.spec("SEC-04")
async def test_without_secrets_none_is_anywhere_in_the_archive(tmp_path: Path, data: Path) -> None:
    """Also not where something was deleted before."""
    secrets = [b"signing-secret", b"route-secret", b"door-secret", b"a-new-one", b"deleted-secret"]
    async with running(tmp_path) as hub:
        await secretive(hub)
    whole, _ = back_up(data, tmp_path / "whole.tar.gz", with_secrets=True)
    plain, manifest = back_up(data, tmp_path / "plain.tar.gz")
    assert all(secret in unpacked(whole) for secret in secrets[:4])
    assert not [secret for secret in secrets if secret in unpacked(plain)]
    assert manifest.left_out == LeftOut(webhooks=2, headers=2)

    said = run_hubbub("restore", plain, "--data", tmp_path / "new" / "data").stdout
    assert "2 webhooks with a secret are not in it, and 2 routes and auth providers" in said
    async with running(tmp_path / "new") as hub:
        node = hub.server.node
        assert [each.secret for each in await node.feature(Webhooks).list(node.hub("acme"))] == [
            None
        ]
        assert node.hub("acme").configuration.rpc_routes["vault"].headers == {}


async def test_a_folder_whose_keys_the_settings_give_is_backed_up_with_its_secrets(
    tmp_path: Path, data: Path
) -> None:
    await fill(tmp_path, 3, size=10)
    (data / "secrets.json").unlink()
    _, manifest = back_up(data, tmp_path, with_secrets=True)
    assert (list(manifest.files), manifest.left_out) == (["hubbub.db"], None)


async def test_archives_and_what_comes_out_of_them_are_for_their_owner_only(
    tmp_path: Path, archive: Path
) -> None:
    restore(archive, tmp_path / "new")
    for path in (archive, *(tmp_path / "new").rglob("*"), tmp_path / "new"):
        assert path.stat().st_mode & 0o077 == 0, path


async def test_a_volume_is_restored_to_in_place(archive: Path, small_disk: Path) -> None:
    """A mount point cannot be renamed, as a container's data folder is."""
    restore(archive, small_disk)
    restored = restore(archive, small_disk, force=True)
    assert restored.kept is not None
    assert restored.kept.parent == small_disk


@pytest.mark.skipif(os.geteuid() != 0, reason="only root works in the folders of others")
async def test_what_root_restores_belongs_to_the_user_of_the_hub(
    tmp_path: Path, data: Path, archive: Path
) -> None:
    for path in (data, *data.rglob("*")):
        os.chown(path, 12345, 12346)
    restore(archive, data, force=True)
    for path in data.rglob("*"):
        assert (path.stat().st_uid, path.stat().st_gid) == (12345, 12346), path


async def test_an_archive_of_an_older_version_is_upgraded_when_the_hub_starts(
    tmp_path: Path,
) -> None:
    (tmp_path / "old").mkdir()
    as_version_1(tmp_path / "old" / "hubbub.db")
    older, manifest = back_up(tmp_path / "old", tmp_path / "older.tar.gz")
    assert manifest.schema == 1
    restore(older, tmp_path / "other" / "data")
    async with running(tmp_path / "other") as hub:
        assert int((await history(hub, "log:a"))["head"]) == 3


# -- what is refused --------------------------------------------------------------------------


async def test_a_backup_refuses_what_it_cannot_do_and_leaves_nothing(
    tmp_path: Path, data: Path, archive: Path
) -> None:
    assert "exists already" in why_not(lambda: back_up(data, archive))
    assert "there is no store" in why_not(lambda: back_up(tmp_path / "nowhere", tmp_path / "b"))
    assert "there is no folder" in why_not(lambda: back_up(data, tmp_path / "no" / "b"))
    database = (data / "hubbub.db").read_bytes()
    (data / "hubbub.db").write_bytes(database[:-4096] + b"\xa5" * 4096)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert "keep the backups you have" in why_not(lambda: back_up(data, tmp_path / "b"))
    left = [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")]
    assert sorted(left) == names


async def test_a_folder_in_use_or_with_data_is_not_restored_to(
    tmp_path: Path, data: Path, archive: Path
) -> None:
    before = tree(data)
    assert "is not empty; give --force" in why_not(lambda: restore(archive, data))
    assert tree(data) == before
    async with running(tmp_path) as hub:
        refused = why_not(lambda: restore(archive, data, force=True))
        assert "another hub process is using" in refused
        assert (await post(hub, "log:a", "goes on"))["channelSerial"] == "21"


async def test_without_room_nothing_changes_and_nothing_is_left(
    tmp_path: Path, data: Path, small_disk: Path
) -> None:
    await fill(tmp_path, 400, size=10_000)
    archive, _ = back_up(data, tmp_path / "backup.tar.gz")
    assert "space" in why_not(lambda: restore(archive, small_disk / "data"))
    assert list(small_disk.iterdir()) == []
    refused = why_not(lambda: back_up(data, small_disk / "backup.tar.gz"))
    assert "is full: free disk space" in refused
    back_up(tmp_path / "data", tmp_path / "another.tar.gz")
    assert not (small_disk / "backup.tar.gz").exists()


def read_members(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as tar:
        return {m.name: (tar.extractfile(m) or io.BytesIO()).read() for m in tar}


def write_members(path: Path, members: list[tuple[str, bytes]]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def repacked(archive: Path, path: Path, **changes: Any) -> Path:
    members = read_members(archive)
    manifest = json.loads(members.pop("manifest.json")) | changes
    head = ("manifest.json", json.dumps(manifest).encode())
    return write_members(path, [head, *members.items()])


def forgeries(archive: Path, folder: Path) -> list[tuple[str, Path]]:
    """Archives that are not what they should be, and what is said of each."""
    members = read_members(archive)
    head, database = ("manifest.json", members["manifest.json"]), members["hubbub.db"]
    keys = ("secrets.json", members["secrets.json"])
    spoiled = bytearray(database)
    spoiled[5000] ^= 1
    packed = archive.read_bytes()
    flipped = bytearray(packed)
    flipped[len(packed) // 2] ^= 0x10
    (folder / "cut").write_bytes(packed[: len(packed) // 2])
    (folder / "flipped").write_bytes(flipped)
    (folder / "text").write_text("hello")
    (folder / "gzip").write_bytes(gzip.compress(b"hello"))
    (folder / "nothing").write_bytes(b"")
    entry = {"bytes": 5, "sha256": "x"}
    return [
        ("", folder / "cut"),
        ("", folder / "flipped"),
        ("no archive", folder / "text"),
        ("no archive", folder / "gzip"),
        ("no archive", folder / "nothing"),
        ("newer", repacked(archive, folder / "newer", schema=99)),
        ("has format 2", repacked(archive, folder / "format", format=2)),
        ("manifest", repacked(archive, folder / "typed", schema="one")),
        ("what a backup holds", repacked(archive, folder / "path", files={"../evil": entry})),
        ("does not open with", write_members(folder / "headless", [("hubbub.db", database)])),
        ("is incomplete", write_members(folder / "less", [head, ("hubbub.db", database)])),
        (
            "checksum of hubbub.db",
            write_members(folder / "changed", [head, ("hubbub.db", bytes(spoiled)), keys]),
        ),
        (
            "does not hold what",
            write_members(folder / "more", [head, ("hubbub.db", database), keys, ("x", b"x")]),
        ),
        (
            "does not hold what",
            write_members(folder / "twice", [head, ("hubbub.db", database), keys, keys]),
        ),
    ]


async def test_no_archive_that_is_damaged_forged_or_newer_changes_anything(
    tmp_path: Path, data: Path, archive: Path
) -> None:
    folder = tmp_path / "forgeries"
    folder.mkdir()
    before = tree(data)
    for reason, path in forgeries(archive, folder):
        said = why_not(partial(restore, path, data, force=True))
        assert reason in said, (path, said)
        assert str(path) in said
        assert tree(data) == before, path
        why_not(partial(restore, path, tmp_path / "new" / "data"))
        assert not (tmp_path / "new" / "data").exists(), path


async def test_the_commands_say_in_one_line_what_is_wrong(tmp_path: Path, archive: Path) -> None:
    for arguments in (
        ("backup", archive, "--data", tmp_path / "data"),
        ("backup", tmp_path / "b", "--data", tmp_path / "nowhere"),
        ("restore", archive, "--data", tmp_path / "data"),
    ):
        refused = run_hubbub(*arguments)
        assert refused.returncode == 1
        assert refused.stderr.startswith("hubbub: ")
        assert len(refused.stderr.splitlines()) == 1


def test_a_store_in_postgresql_is_left_to_its_own_tools(tmp_path: Path) -> None:
    config = tmp_path / "hubbub.yaml"
    config.write_text("storage: {postgres: {host: db.example, user: hub, dbName: hub}}\n")
    refused = run_hubbub("backup", tmp_path / "b", "--config", config)
    assert refused.returncode == 1
    assert "pg_dump" in refused.stderr


# -- killed in the middle ---------------------------------------------------------------------


def killed_at(step: int, within: Path, work: Callable[[], object]) -> bool:
    """Do the work in a process that is killed at its n-th touch of a file in the folder. Answers
    whether it was; False: it came to its end before."""
    child = os.fork()
    if child == 0:
        left = step

        def watch(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal left
            if event not in ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir"):
                return
            if str(within) in str(arguments[0]):
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(watch)
        try:
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def test_a_restore_killed_at_any_step_leaves_all_of_the_old_data_or_all_of_the_new(
    tmp_path: Path,
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    asyncio.run(fill(old, 5, size=10))
    asyncio.run(fill(new, 9, size=10))
    (old / "data" / "hubbub.db-wal").write_bytes(b"the log of the old database")
    archive, _ = back_up(new / "data", tmp_path / "backup.tar.gz", with_secrets=True)
    old_tree = {n: d for n, d in tree(old / "data").items() if "/" not in n}  # the journal stays
    outcomes = []
    for step in range(200):
        data = tmp_path / f"try-{step}" / "data"
        shutil.copytree(old / "data", data)
        killed = killed_at(step, data, partial(restore, archive, data, force=True))
        completed = complete_restore(data)
        found = {name: digest for name, digest in tree(data).items() if "/" not in name}
        if (data / "secrets.json").read_bytes() == (new / "data" / "secrets.json").read_bytes():
            outcomes.append("completed" if completed else "new")
            assert found["hubbub.db"] != old_tree["hubbub.db"]
            assert "hubbub.db-wal" not in found
            (kept,) = data.glob("before-restore-*")
            assert tree(kept) == {
                n: d for n, d in old_tree.items() if not n.endswith((".lock", ".address"))
            }
        else:
            outcomes.append("old")
            assert found == old_tree
        if not killed:
            break
        restore(archive, data, force=True)  # what was left is in nobody's way
        shutil.rmtree(data)
    assert not killed
    changes = sum(a != b for a, b in itertools.pairwise(outcomes))
    assert [outcomes[0], outcomes[-1]] == ["old", "new"], outcomes
    assert changes == 2, outcomes


def test_a_backup_killed_at_any_step_leaves_no_archive_or_a_good_one(tmp_path: Path) -> None:
    asyncio.run(fill(tmp_path, 5, size=10))
    folder = tmp_path / "backups"
    folder.mkdir()
    target = folder / "backup.tar.gz"
    for step in range(100):
        if not killed_at(step, folder, lambda: back_up(tmp_path / "data", target)):
            break
        if target.exists():
            restore(target, tmp_path / f"from-{step}")
            target.unlink()
        back_up(tmp_path / "data", target)
        target.unlink()
    assert step > 5
    restore(target, tmp_path / "from-the-last")
    assert [path.name for path in folder.iterdir()] == ["backup.tar.gz"]


async def test_a_hub_completes_a_restore_that_was_cut_short(
    tmp_path: Path, data: Path, archive: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as hub:
        await post(hub, "log:a", "after the backup")
    step = 0
    while not (data / ".restore" / "decided.json").exists():
        assert killed_at(step, data, lambda: restore(archive, data, force=True))
        step += 1
    refused = why_not(lambda: back_up(data, tmp_path / "b"))
    assert "start the hub, which completes it" in refused
    async with running(tmp_path) as hub:
        assert int((await history(hub, "log:a"))["head"]) == 20
    assert "completed a restore" in caplog.text
    assert not (data / ".restore").exists()
