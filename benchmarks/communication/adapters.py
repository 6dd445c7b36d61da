"""Adapters that live in memory: peers that answer at once, and one that takes its time."""

from __future__ import annotations

import asyncio
import contextlib
import time

import msgspec

from hubbub.domain.communication.messages import PeerMessage
from hubbub.domain.errors import QuotaExceeded
from hubbub.ports.adapters import AdapterContext, Delivery, Publish, adapter

INPUTS = 10
"""Input adapters, as in the report."""
REPLIES_UNDER_WAY = 100
"""Of one input adapter."""
_PAUSE_SECONDS = 0.05
TAKEN: list[Delivery] = []
"""What `bench-taker` was given, the newest last."""
TAKEN_AT: list[float] = []
REPLIES: list[asyncio.Queue[PeerMessage]] = [asyncio.Queue() for _ in range(INPUTS)]
"""What peers answered and input adapters have not picked up yet, by adapter."""


class NoSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class InputSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    number: int


class SlowSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    slow: bool = False
    """Takes its time while `Slowness` says so."""


class Slowness:
    """Of slow adapters, turned on and off during a measurement."""

    seconds = 0.0
    _over = asyncio.Event()

    @classmethod
    def begin(cls, seconds: float) -> None:
        cls.seconds = seconds
        cls._over.clear()

    @classmethod
    def end(cls) -> None:
        """Also for pushes that are under way."""
        cls.seconds = 0.0
        cls._over.set()

    @classmethod
    async def take_time(cls) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(cls._over.wait(), cls.seconds)


@adapter(name="bench-peers", settings=NoSettings)
class AnsweringPeers:
    """Every peer answers at once, by one of the input adapters."""

    def __init__(self, settings: NoSettings, context: AdapterContext) -> None:
        self._next = 0

    async def push(self, delivery: Delivery) -> None:
        asked = delivery.message
        number = self._next = (self._next + 1) % INPUTS
        REPLIES[number].put_nowait(
            PeerMessage(
                type="REPLY",
                subtype="DATA",
                sender=delivery.peer,
                receiver=asked.sender,
                conversation_id=asked.conversation_id,
                content=asked.content,
                refers_to=asked.id,
            )
        )

    async def close(self) -> None:
        pass


@adapter(name="bench-replies", settings=InputSettings, direction="push")
class Replies:
    """Publishes what peers answered."""

    def __init__(self, settings: InputSettings, context: AdapterContext) -> None:
        self._queue = REPLIES[settings.number]
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, publish: Publish) -> None:
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._work(publish)) for _ in range(REPLIES_UNDER_WAY)]

    async def _work(self, publish: Publish) -> None:
        while True:
            reply = await self._queue.get()
            while True:
                try:
                    await publish(reply)
                    break
                except QuotaExceeded:  # too many messages wait
                    await asyncio.sleep(_PAUSE_SECONDS)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@adapter(name="bench-taker", settings=SlowSettings)
class Taker:
    """Keeps when each message came; may take its time."""

    def __init__(self, settings: SlowSettings, context: AdapterContext) -> None:
        self._slow = settings.slow

    async def push(self, delivery: Delivery) -> None:
        if self._slow and Slowness.seconds:
            await Slowness.take_time()
        TAKEN.append(delivery)
        TAKEN_AT.append(time.perf_counter())

    async def close(self) -> None:
        pass
