"""Local copies of documents in the Python client, against a running hub."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from harness.running_hub import RunningHub, StartHub, open_hub
from hubbub.client import (
    Client,
    CopyMismatch,
    CopyState,
    EditRejected,
    FileInUse,
    LocalCopy,
    Options,
    QueueFull,
    connect,
    sync,
)
from hubbub.domain.errors import InvalidPayload, NotFound, NotPermitted, PatchFailed
from hubbub.domain.permissions import Grant, Level
from hubbub.domain.rules import Rules

CHANNEL = "doc:a"
pytestmark = pytest.mark.spec("DOC-03", "local copies")


def client_of(hub: RunningHub, token: str | None = None, **options: Any) -> Client:
    return connect(f"ws://{hub.address}", hub="acme", token=token, options=Options(**options))


def append(value: object) -> dict[str, Any]:
    return {"op": "add", "path": "/items/-", "value": value}


async def shows(copy: LocalCopy, value: Any) -> None:
    async with asyncio.timeout(10):
        async for state in copy.watch():
            if state.value == value and not state.pending:
                return


@pytest.mark.parametrize("encoding", ["json", "protobuf"])
async def test_an_edit_shows_at_once_and_is_confirmed(hub: RunningHub, encoding: str) -> None:
    async with (
        client_of(hub, encoding=encoding) as client,
        client_of(hub) as other,
        client.document(CHANNEL).local() as copy,
    ):
        assert (copy.value, copy.version) == ({}, 0)
        first = copy.patch(append("milk"))
        second = copy.patch(append(b"\x00\xff"))
        assert copy.value == {"items": ["milk", b"\x00\xff"]}
        assert (copy.confirmed, copy.pending, first.done) == ({}, 2, False)
        assert (await first).version == 1
        assert (await second).version == 2
        await shows(copy, {"items": ["milk", b"\x00\xff"]})
        await other.document(CHANNEL).patch({"op": "remove", "path": "/items/0"})
        await shows(copy, {"items": [b"\x00\xff"]})
        assert copy.get("/items/0") == b"\x00\xff"
        with pytest.raises(NotFound):
            copy.get("/nothing")
        found = await other.document(CHANNEL).get()
        assert (found.value, found.version) == (copy.value, copy.version)


async def test_what_does_not_fit_changes_nothing(hub: RunningHub) -> None:
    async with client_of(hub) as client, client.document(CHANNEL).local(max_pending=1) as copy:
        with pytest.raises(PatchFailed):
            copy.patch(append(1), {"op": "remove", "path": "/x"})
        with pytest.raises(InvalidPayload):
            copy.patch(append(2**53 + 1))
        with pytest.raises(ZeroDivisionError):
            copy.edit(lambda _: 1 / 0)  # type: ignore[arg-type, return-value]
        assert (copy.value, copy.pending) == ({}, 0)
        edit = copy.patch(append(1))
        with pytest.raises(QueueFull):
            copy.patch(append(2))
        await edit
        await copy.settled()
        assert (await copy.edit(lambda _: [])).version == 1


async def test_functions_run_again_until_they_fit(hub: RunningHub) -> None:
    def increment(value: Any) -> list[dict[str, Any]]:
        return [{"op": "add", "path": "/n", "value": value.get("n", 0) + 1}]

    async with (
        client_of(hub) as one,
        client_of(hub) as two,
        one.document(CHANNEL).local() as left,
        two.document(CHANNEL).local() as right,
    ):
        edits = [copy.edit(increment) for _ in range(15) for copy in (left, right)]
        versions = [(await edit).version for edit in edits]
        assert len(set(versions)) == 30
        await shows(left, {"n": 30})
        await shows(right, {"n": 30})


@pytest.mark.spec("DOC-02", "local copies: function edits under contention")
async def test_no_increment_of_ten_clients_at_once_is_lost(hub: RunningHub) -> None:
    def increment(value: Any) -> list[dict[str, Any]]:
        return [{"op": "add", "path": "/n", "value": value.get("n", 0) + 1}]

    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(client_of(hub)) for _ in range(10)]
        copies = [
            await stack.enter_async_context(each.document(CHANNEL).local()) for each in clients
        ]

        async def count(copy: LocalCopy) -> list[int]:
            return [(await copy.edit(increment)).version for _ in range(20)]

        versions = await asyncio.gather(*map(count, copies))
        assert len(set(chain(*versions))) == 200
        for copy in copies:
            await shows(copy, {"n": 200})


async def test_a_rejection_hands_the_operations_back(hub: RunningHub) -> None:
    told: list[bytes] = []
    long = "x" * 2000
    async with client_of(hub) as client:
        local = client.document(CHANNEL).local(on_rejected=lambda each: told.append(each.ops))
        async with local as copy:
            refused = copy.patch({"op": "add", "path": f"/{long}", "value": {"n": 1}})
            on_top = copy.patch({"op": "replace", "path": f"/{long}/n", "value": 2})
            beside = copy.patch(append("milk"))
            assert copy.value == {long: {"n": 2}, "items": ["milk"]}
            with pytest.raises(EditRejected) as too_large:
                await refused
            assert too_large.value.reason.code == "too_large"
            with pytest.raises(EditRejected) as missing:
                await on_top
            assert missing.value.reason.code == "patch_failed"
            assert [json.loads(each)[0]["op"] for each in told] == ["add", "replace"]
            assert told == [too_large.value.ops, missing.value.ops]
            assert (await beside).version == 1
            await shows(copy, {"items": ["milk"]})


@pytest.mark.spec("DOC-03", "local copies: saved before sending, one writer per file")
async def test_edits_made_offline_survive_and_are_sent_later(
    hub: RunningHub, tmp_path: Path
) -> None:
    file = tmp_path / "a.copy"
    async with client_of(hub) as client, client.document(CHANNEL).local(file) as copy:
        await copy.patch(append("known"))
    dead = connect("ws://127.0.0.1:9", hub="acme", options=Options(start_offline=True))
    async with dead, dead.document(CHANNEL).local(file) as copy:
        assert copy.value == {"items": ["known"]}
        edits = [copy.patch(append(number)) for number in range(20)]
        for edit in edits:
            await edit.saved()
        with pytest.raises(FileInUse):
            await dead.document("doc:b").local(file).open()
    async with client_of(hub) as client, client.document(CHANNEL).local(file) as copy:
        await asyncio.wait_for(copy.settled(), 10)
        expected = {"items": ["known", *range(20)]}
        assert copy.value == expected
        found = await client.document(CHANNEL).get()
        assert (found.value, found.version) == (expected, 21)
    async with client_of(hub) as client:
        with pytest.raises(CopyMismatch):
            await client.document("doc:b").local(file).open()


async def test_a_new_epoch_rejects_what_was_made_for_the_old_one(
    hub: RunningHub, tmp_path: Path
) -> None:
    file = tmp_path / "a.copy"
    async with client_of(hub) as client, client.document(CHANNEL).local(file) as copy:
        await copy.patch(append("old"))
    dead = connect("ws://127.0.0.1:9", hub="acme", options=Options(start_offline=True))
    async with dead, dead.document(CHANNEL).local(file) as copy:
        await copy.patch(append("pending")).saved()
    token = hub.token(None, level=Level.SERVICE)
    headers = {"Authorization": f"Bearer {token}"}
    path = f"/v1/hubs/acme/channels/{CHANNEL}/document"
    async with hub.http.delete(path, headers=headers) as answer:
        assert answer.status == 204
    async with client_of(hub) as client, client.document(CHANNEL).local(file) as copy:
        await shows(copy, {})
        (rejection,) = copy.rejected
        assert rejection.code == "version_mismatch"
        assert b"pending" in rejection.ops
    async with client_of(hub) as client, client.document(CHANNEL).local(file) as copy:
        assert copy.rejected == [rejection]
        await copy.forget_rejected()
        await copy.patch(append("new"))
    async with client_of(hub) as client, client.document(CHANNEL).local(file) as copy:
        assert (copy.rejected, copy.value) == ([], {"items": ["new"]})


async def test_who_may_only_read_gets_edits_back_and_who_may_not_gets_no_copy(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(open_hub(allow_anonymous=False, rules=Rules()))
    reader = hub.token("r", grants=(Grant("doc:*", subscribe=True),))
    stranger = hub.token("s")
    async with client_of(hub, reader) as client, client.document(CHANNEL).local() as copy:
        edit = copy.patch(append(1))
        with pytest.raises(EditRejected) as rejected:
            await edit
        assert isinstance(rejected.value.reason, NotPermitted)
        assert copy.value == {}
    async with client_of(hub, stranger) as client:
        with pytest.raises(NotPermitted):
            await client.document(CHANNEL).local().open()


async def test_a_program_without_asyncio_has_the_same_copies(
    hub: RunningHub, tmp_path: Path
) -> None:
    def work() -> None:
        with sync.connect(f"ws://{hub.address}", hub="acme") as client:
            document = client.document(CHANNEL)
            with document.local(tmp_path / "a.copy") as copy:
                edit = copy.patch(append("milk"))
                assert copy.value == {"items": ["milk"]}
                edit.wait_saved()
                assert edit.wait().version == 1
                copy.edit(lambda value: [append(len(value["items"]))]).wait()
                copy.settled()
                assert copy.state == CopyState(
                    {"items": ["milk", 1]}, 2, copy.state.epoch, pending=0
                )
                with pytest.raises(PatchFailed):
                    copy.patch({"op": "remove", "path": "/x"})
                assert (next(copy.watch()).version, copy.rejected) == (2, [])
                document.patch({"op": "remove", "path": "/items/0"})
                assert next(each for each in copy.watch() if each.version == 3).pending == 0
                assert copy.get("/items") == [1]
            assert document.get().value == {"items": [1]}
            assert next(document.watch()).version == 3

    await asyncio.to_thread(work)
