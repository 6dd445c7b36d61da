"""Hubs with very many settings: what changes one of them leaves turns to everybody else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from harness.engine import Alone
from harness.running_hub import OPEN, open_hub
from hubbub.domain.rules import ChannelSettings
from hubbub.domain.stored_settings import decode_setting, encode_setting
from hubbub.engine.directory import Directory
from hubbub.ports.storage.settings import SettingsEntry

pytestmark = pytest.mark.spec("SEC-01")

COUNT = 2_000
LEAST_TURNS = COUNT // 100


@pytest.fixture
async def directory(tmp_path: Path) -> AsyncIterator[Directory]:
    async with Alone(tmp_path, hubs=[open_hub(rules=OPEN)]) as running:
        directory = running.node.directory
        value = encode_setting(ChannelSettings(None, {"of": "a storm"}))
        entries = [SettingsEntry("channel", "acme", f"c{n}", value) for n in range(COUNT)]
        await running.store.put_settings(entries)
        await directory.changed("acme")
        yield directory


@pytest.fixture
def decoded(directory: Directory, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What is decoded from now on."""
    found: list[bytes] = []

    def decode(data: bytes, kind: Any) -> Any:
        found.append(data)
        return decode_setting(data, kind)

    monkeypatch.setattr("hubbub.engine.directory.decode_setting", decode)
    return found


async def test_a_change_of_one_of_many_settings_decodes_that_one_and_leaves_turns_to_others(
    directory: Directory, decoded: list[bytes]
) -> None:
    turns = 0
    change = asyncio.create_task(
        directory.put("acme", "channel", "new", ChannelSettings(None, {"of": "ann"}))
    )
    async with asyncio.timeout(20):
        while not change.done():
            turns += 1
            await asyncio.sleep(0)
    await change
    found = directory.get("acme").channels
    assert found["new"].metadata == {"of": "ann"}
    assert found["c0"].metadata == {"of": "a storm"}
    assert len(found) == COUNT + 1
    assert len(decoded) == 1
    assert turns >= LEAST_TURNS


async def test_what_was_changed_and_deleted_takes_effect_among_many_settings(
    directory: Directory, decoded: list[bytes]
) -> None:
    before = directory.get("acme").channels["c1"]
    await directory.put("acme", "channel", "c0", ChannelSettings(None, {"of": "ann"}))
    assert await directory.delete("acme", "channel", "c1")
    assert "c1" not in directory.get("acme").channels
    await directory.put("acme", "channel", "c1", before)
    await directory.refresh()
    found = directory.get("acme").channels
    assert (found["c0"].metadata, found["c1"]) == ({"of": "ann"}, before)
    assert len(decoded) == 2
