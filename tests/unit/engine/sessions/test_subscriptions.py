"""Subscribing to several channels at once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.engine import Alone, EngineNode, FakeConnection, NoticeEncoder, receive
from harness.running_hub import OPEN, open_hub
from hubbub.domain.asking import OwnerRequest
from hubbub.domain.errors import Unavailable
from hubbub.domain.history import HistoryQuery
from hubbub.domain.messages import JSON
from hubbub.domain.notices import (
    Failed,
    MessageDelivery,
    Presence,
    Subscribed,
)
from hubbub.domain.permissions import ANONYMOUS
from hubbub.domain.requests import PublishItem, Subscribe, SubscribeItem
from hubbub.engine.sessions.plans import KEPT_BYTES
from hubbub.ports.bus import Attach, Attachment, MembersQuery

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

        async def attach(request: OwnerRequest[Any], /) -> Any:
            assert isinstance(request, Attach)
            await owners.ask(request.channel)
            return Attachment("one", 3, None)

        alone.node.bus.ask = attach  # type: ignore[method-assign]
        listener = alone.node.connect()
        receive(listener, Subscribe(tuple(SubscribeItem(name) for name in [*CHANNELS, "c1"])))
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

        ask = alone.node.bus.ask

        async def members(request: OwnerRequest[Any], /) -> Any:
            if not isinstance(request, MembersQuery):
                return await ask(request)
            await owners.ask(request.channel)
            return ()

        alone.node.bus.ask = members  # type: ignore[method-assign]
        listener = alone.node.connect()
        receive(listener, Subscribe(tuple(SubscribeItem(name) for name in CHANNELS)))
        failed = await listener.next(Failed)
        assert failed.error.code == "unavailable"
        await listener.until(lambda: len(listener.all(Presence)) == len(CHANNELS) - 1)


STORED = msgspec.structs.replace(OPEN, store=True, store_by_default=True)
LARGE = [b'"%d%b"' % (number, b"x" * 20_000) for number in range(10)]


class Asked:
    """Notes after which serials of each channel pages are read."""

    def __init__(self, node: EngineNode) -> None:
        self.after: dict[str, list[int | None]] = {}
        self._ask = node.bus.ask
        node.bus.ask = self._read  # type: ignore[method-assign]

    async def _read(self, request: OwnerRequest[Any], /) -> Any:
        if isinstance(request, HistoryQuery):
            self.after.setdefault(request.channel, []).append(request.after)
        return await self._ask(request)


async def publish_large(node: EngineNode, *channels: str) -> None:
    for channel in channels:
        for payload in LARGE:
            await node.node.publisher.settle(
                node.node.hub("acme"), ANONYMOUS, PublishItem(channel, "e", payload, JSON)
            )


@pytest.mark.spec("LIVE-06", "SEC-01")
async def test_of_many_channels_only_a_little_of_what_was_missed_is_held(tmp_path: Path) -> None:
    """What does not fit is read again when its turn comes; everything arrives once, in order."""
    channels = [f"large{number}" for number in range(6)]
    async with Alone(tmp_path, hubs=[open_hub(rules=STORED)]) as alone:
        await publish_large(alone.node, *channels)
        asked = Asked(alone.node)
        listener = await alone.node.subscribe(*channels, serial=0)
        for channel in channels:
            await listener.delivered(channel, len(LARGE))
            assert [each.payload for each in listener.deliveries(channel)] == LARGE
        assert all(first == 0 for first, *_ in asked.after.values())
        read_again = [channel for channel in channels if len(asked.after[channel]) > 1]
        held = (len(channels) - len(read_again)) * sum(map(len, LARGE))
        assert held <= KEPT_BYTES


@pytest.mark.spec("LIVE-06", "SEC-01")
async def test_no_page_is_held_while_a_client_does_not_read(tmp_path: Path) -> None:
    async with Alone(tmp_path, hubs=[open_hub(rules=STORED)]) as alone:
        await publish_large(alone.node, "large")
        asked = Asked(alone.node)
        listener = Stalling(alone.node.encoder, parts=2)
        alone.node.adopt(listener)
        receive(listener, Subscribe((SubscribeItem("large", serial=0),)))
        await listener.delivered("large", 4)
        assert (asked.after["large"], len(listener.deliveries("large"))) == ([0], 4)
        listener.read()
        await listener.delivered("large", len(LARGE))
        assert asked.after["large"] == [0, 4]
        assert [each.payload for each in listener.deliveries("large")] == LARGE


class Stalling(FakeConnection):
    """A client that reads nothing after so many parts of what it missed, until `read`."""

    def __init__(self, encoder: NoticeEncoder, parts: int) -> None:
        super().__init__(encoder)
        self._parts = parts
        self._reading = asyncio.Event()

    def send(self, data: bytes) -> None:
        before = len(self.all(MessageDelivery))
        super().send(data)
        if len(self.all(MessageDelivery)) > before and not self._reading.is_set():
            self._parts -= 1
            self.full = self._parts <= 0

    async def drain(self) -> None:
        if self.full:
            await self._reading.wait()

    def read(self) -> None:
        self.full = False
        self._reading.set()


@pytest.mark.spec("SEC-01", "LIVE-12")
async def test_many_sessions_that_are_lost_together_end_in_many_turns(tmp_path: Path) -> None:
    channels = [f"c{number}" for number in range(100)]
    async with Alone(tmp_path) as alone:
        hub = alone.node.node.hub("acme")
        crowd = [await alone.node.subscribe(*channels) for _ in range(5)]
        for connection in crowd:
            assert connection.session is not None
            connection.session.lost()
        left = []
        while hub.feeds:
            left.append(sum(feed.subscribers for feed in hub.feeds.values()))
            await asyncio.sleep(0)
        assert left == [500, 400, 300, 200, 100]
        assert not hub.sessions
        assert alone.node.node.session_count == 0
