"""Subscribing to several channels at once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from harness.engine import Alone, receive
from harness.running_hub import OPEN, open_hub
from hubbub.domain.errors import Unavailable
from hubbub.domain.notices import Failed, Member, Presence, Subscribed
from hubbub.domain.requests import ChannelRequest, Subscribe
from hubbub.ports.bus import Attachment

pytestmark = pytest.mark.spec("LIVE-08")

CHANNELS = [f"c{number}" for number in range(20)]


class Owners:
    """They answer when all of them were asked; that of `c7` is away."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._all_asked = asyncio.Event()

    async def ask(self, channel: str) -> None:
        self.asked.append(channel)
        if len(self.asked) == len(CHANNELS):
            self._all_asked.set()
        await asyncio.wait_for(self._all_asked.wait(), 5)
        if channel == "c7":
            raise Unavailable("its owner is away")


async def test_the_owners_of_many_channels_are_asked_side_by_side(tmp_path: Path) -> None:
    """One after the other, each would cost the way to another node and back."""
    async with Alone(tmp_path) as alone:
        owners = Owners()

        async def attach(hub: str, channel: str) -> Attachment:
            await owners.ask(channel)
            return Attachment("one", 3, None)

        alone.node.bus.attach = attach  # type: ignore[method-assign]
        listener = alone.node.connect()
        receive(listener, Subscribe(tuple(ChannelRequest(name) for name in [*CHANNELS, "c1"])))
        answer = await listener.next(Subscribed)
        assert sorted(owners.asked) == sorted(CHANNELS), (
            "a channel that was named twice is asked for once"
        )
        assert [each.channel for each in answer.channels] == [c for c in CHANNELS if c != "c7"]
        assert [failure.channel for failure in answer.failures] == ["c7"]
        assert "c7" not in alone.node.node.hub("acme").feeds


@pytest.mark.spec("LIVE-12")
async def test_the_owners_are_asked_side_by_side_who_is_there(tmp_path: Path) -> None:
    rules = msgspec.structs.replace(OPEN, presence=True)
    async with Alone(tmp_path, hubs=[open_hub(rules=rules)]) as alone:
        owners = Owners()

        async def members(hub: str, channel: str) -> tuple[Member, ...]:
            await owners.ask(channel)
            return ()

        alone.node.bus.members = members  # type: ignore[method-assign]
        listener = alone.node.connect()
        receive(listener, Subscribe(tuple(ChannelRequest(name) for name in CHANNELS)))
        failed = await listener.next(Failed)
        assert failed.error.code == "unavailable"
        await listener.until(lambda: len(listener.all(Presence)) == len(CHANNELS) - 1)
