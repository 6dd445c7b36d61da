"""The memory of all live histories together is bounded, and who uses most of it pays."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from harness.engine import Alone
from harness.running_hub import OPEN, open_hub
from hubbub.domain.history import HistoryQuery
from hubbub.domain.messages import JSON, Message
from hubbub.domain.notices import HistoryPage

pytestmark = pytest.mark.spec("SEC-01", "LIVE-13")
SIZE = 10_000
ROOM = 20 * SIZE


async def publish(alone: Alone, hub: str, channel: str) -> None:
    answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    message = Message(f"{hub}-{channel}", hub, channel, "e", b"x" * SIZE, JSON, 1000)
    alone.node.owner.publish(message, partial(_settle, answered))
    await answered


def _settle(answered: asyncio.Future[None], _: object) -> None:
    answered.set_result(None)


async def history_of(alone: Alone, hub: str, channel: str) -> HistoryPage:
    return await alone.node.bus.ask(HistoryQuery(hub, channel, 10, after=0))


def taken(alone: Alone) -> int:
    return sum(held.bytes for held in alone.node.owner.channels._held.values())


async def test_a_hub_with_ever_new_channels_loses_its_oldest_histories_and_another_none(
    tmp_path: Path,
) -> None:
    hubs = [open_hub("red", OPEN), open_hub("blue", OPEN)]
    async with Alone(tmp_path, hubs=hubs, live_history_memory_bytes=ROOM) as alone:
        for number in range(3):
            await publish(alone, "blue", f"c{number}")
        for number in range(60):
            await publish(alone, "red", f"c{number}")
        assert taken(alone) > ROOM
        alone.node.owner.sweep()
        assert ROOM // 2 < taken(alone) <= ROOM * 3 // 4
        for number in range(3):
            page = await history_of(alone, "blue", f"c{number}")
            assert (len(page.messages), page.recovered) == (1, True)
        last = await history_of(alone, "red", "c59")
        assert (len(last.messages), last.recovered) == (1, True)
        first = await history_of(alone, "red", "c0")
        assert (len(first.messages), first.recovered) == (0, False), "who comes back is told"
        await publish(alone, "red", "c0")
        assert [each.serial for each in (await history_of(alone, "red", "c0")).messages] == [2]


async def test_a_channel_that_is_closed_gives_its_share_back(tmp_path: Path) -> None:
    async with Alone(tmp_path, hubs=[open_hub("red", OPEN)]) as alone:
        for number in range(5):
            await publish(alone, "red", f"c{number}")
        assert taken(alone) > 5 * SIZE
        alone.clock.advance(1000.0)
        alone.node.owner.channels.close_idle(60.0)
        assert alone.node.owner.channels.count() == 0
        assert taken(alone) == 0
