"""Documents in the Python client and on the command line."""

from __future__ import annotations

import asyncio
import json

import pytest

from harness.command import hubbub
from harness.running_hub import RunningHub
from hubbub.client import Client, DocumentVersion, connect
from hubbub.domain.errors import NotFound, PatchFailed, VersionMismatch

CHANNEL = "doc:a"
pytestmark = pytest.mark.spec("DOC-02", "in the Python client and on the command line")


def client_of(hub: RunningHub) -> Client:
    return connect(f"ws://{hub.address}", hub="acme")


async def test_a_client_reads_and_changes_a_document(hub: RunningHub) -> None:
    async with client_of(hub) as client:
        document = client.document(CHANNEL)
        assert (await document.get()).version == 0
        changed = await document.patch(
            {"op": "add", "path": "/image", "value": b"\x00\x01"},
            {"op": "add", "path": "/n", "value": [1, {"$bytes": "x", "y": None}]},
        )
        assert changed.version == 1
        found = await document.get()
        assert found.value == {"image": b"\x00\x01", "n": [1, {"$bytes": "x", "y": None}]}
        assert (await document.get("/n/0")).value == 1
        with pytest.raises(PatchFailed) as failed:
            await document.patch({"op": "remove", "path": "/x"})
        assert failed.value.details == {"opIndex": 0, "reason": "missing"}
        with pytest.raises(VersionMismatch):
            await document.patch({"op": "remove", "path": "/n"}, expected_version=7)
        with pytest.raises(NotFound):
            await document.get("/x")
        assert (await document.patch({"op": "remove", "path": "/n"})).version == 2
        assert (await document.get(at=1)).value == found.value


async def test_a_client_follows_a_document(hub: RunningHub) -> None:
    async with client_of(hub) as client, client_of(hub) as other:
        seen: list[DocumentVersion] = []

        async def watch() -> None:
            async for found in client.document(CHANNEL).watch():
                seen.append(found)
                if found.version == 20:
                    return

        watching = asyncio.create_task(watch())
        document = other.document(CHANNEL)
        for number in range(20):
            await document.patch({"op": "add", "path": "/n/-", "value": number})
        await asyncio.wait_for(watching, 20)
        assert seen[-1].value == {"n": list(range(20))}
        versions = [each.version for each in seen]
        assert versions == sorted(set(versions))


async def test_documents_on_the_command_line(hub: RunningHub) -> None:
    address = ("--url", f"http://{hub.address}", "--hub", "acme")

    async def say(*arguments: str) -> str:
        ended = await hubbub(*arguments, *address)
        assert ended.code == 0, ended
        return ended.out

    patch = '[{"op":"add","path":"/items/-","value":"milk"}]'
    assert (await say("document", "patch", CHANNEL, patch)).strip() == "1"
    assert json.loads(await say("document", "get", CHANNEL)) == {"items": ["milk"]}
    assert (await say("document", "get", CHANNEL, "--path", "/items/0")).strip() == '"milk"'
    watched = await say("document", "watch", CHANNEL, "--count", "1")
    assert watched.strip() == '1\t{"items":["milk"]}'
