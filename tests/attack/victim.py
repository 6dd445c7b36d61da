"""The victim: a tenant that goes on using its hub, and how long everything takes meanwhile.

Each kind of request is due at fixed times, whatever became of the one before, and its latency
counts from when it was due: a hub that stalls is not given fewer requests to be late with.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import multiprocessing
import os
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from attack.arena import BLUE, Arena
from attack.clients import GONE, Line, Refused, Socket
from attack.cores import attacker_cores, use_cores

KINDS = ("deliver", "publish", "history", "admin")
LOST_SECONDS = 30.0
_PER_SECOND = {"deliver": 40, "publish": 20, "history": 10, "admin": 10}
_SPAWN = multiprocessing.get_context("spawn")
_PATHS = {
    "publish": ("POST", f"/v1/hubs/{BLUE}/channels/news/messages", b'{"n":1}'),
    "history": ("GET", f"/v1/hubs/{BLUE}/channels/log%3Ablue/messages?limit=10", b""),
    "admin": ("GET", f"/v1/admin/hubs/{BLUE}/rules", b""),
}


@dataclass(frozen=True, slots=True)
class Sample:
    """`failed` is empty where the answer was a good one."""

    kind: str
    due: float
    seconds: float
    failed: str = ""


@dataclass(frozen=True, slots=True)
class Service:
    """How a tenant was served for a while. Latencies in milliseconds."""

    p50: dict[str, float]
    p99: dict[str, float]
    failed: tuple[str, ...]

    @classmethod
    def between(cls, samples: Sequence[Sample], begin: float, end: float) -> Service:
        within = [sample for sample in samples if begin <= sample.due < end]
        by_kind = {
            kind: sorted(sample.seconds * 1e3 for sample in within if sample.kind == kind)
            for kind in KINDS
        }
        return cls(
            {kind: _share(values, 0.5) for kind, values in by_kind.items()},
            {kind: _share(values, 0.99) for kind, values in by_kind.items()},
            tuple(sample.failed for sample in within if sample.failed),
        )


def _share(values: Sequence[float], share: float) -> float:
    return values[max(0, math.ceil(share * len(values)) - 1)] if values else math.inf


class Victim:
    """Runs in a process of its own, before the attackers in the queue for the CPU."""

    def __init__(self, arena: Arena) -> None:
        self._pipe, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=_run, args=(arena, theirs), daemon=True)
        self._process.start()
        if not self._pipe.poll(LOST_SECONDS) or self._pipe.recv() != "ready":
            raise RuntimeError("the victim cannot use its hub at all")

    def stop(self) -> list[Sample]:
        """All samples, when what was under way has been answered or given up."""
        self._pipe.send("stop")
        try:
            if not self._pipe.poll(2 * LOST_SECONDS):
                raise RuntimeError("the victim does not end")
            samples: list[Sample] = self._pipe.recv()
            return samples
        finally:
            self._process.kill()
            self._process.join()


def _run(arena: Arena, pipe: Connection) -> None:
    use_cores(attacker_cores())
    with contextlib.suppress(PermissionError):
        os.nice(-18)
    asyncio.run(_use(arena, pipe))


async def _use(arena: Arena, pipe: Connection) -> None:
    user = _User(arena)
    await user.start()
    pipe.send("ready")
    while not pipe.poll():
        await asyncio.sleep(0.02)
    pipe.recv()
    await user.finish()
    pipe.send(user.samples)


class _User:
    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._token = arena.tokens[BLUE]
        self._stopped = False
        self._waiting: dict[int, float] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.samples: list[Sample] = []

    async def start(self) -> None:
        await self._one("publish", await self._line(), time.monotonic())
        self.samples.clear()
        subscriber = await self._socket()
        subscriber.say("Subscribe", reqID=1, channels=[{"channel": "pulse"}])
        await subscriber.find("Subscribe")
        publisher = await self._socket()
        self._begin(self._receive(subscriber))
        self._begin(self._drain(publisher))
        self._begin(self._publish(publisher))
        for kind in _PATHS:
            self._begin(self._ask(kind))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(work))

    async def finish(self) -> None:
        self._stopped = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOST_SECONDS):
                while self._waiting:
                    await asyncio.sleep(0.02)
                await asyncio.gather(*self._tasks[2:])
        for task in self._tasks:
            task.cancel()
        for due in self._waiting.values():
            self.samples.append(Sample("deliver", due, LOST_SECONDS, "not delivered"))

    async def _line(self) -> Line:
        return await Line.open(self._arena, source="127.0.0.1")

    async def _socket(self) -> Socket:
        return await Socket.connect(self._arena, self._token, BLUE, source="127.0.0.1")

    async def _publish(self, socket: Socket) -> None:
        number = 0

        async def publish(due: float) -> None:
            nonlocal number
            number += 1
            self._waiting[number] = due
            item = {"channel": "pulse", "event": "beat", "payload": {"json": number}}
            socket.say("Publish", publishes=[item])

        await self._pace(_PER_SECOND["deliver"], publish)

    async def _receive(self, socket: Socket) -> None:
        try:
            while True:
                for envelope in await socket.hear():
                    if envelope["event"] == "Publish":
                        number = envelope["payload"]["payload"]["json"]
                        due = self._waiting.pop(number, None)
                        if due is not None:
                            self.samples.append(Sample("deliver", due, time.monotonic() - due))
                    elif envelope["event"] in ("Closed", "Disconnect", "Error"):
                        self._fail("deliver", json.dumps(envelope["payload"]))
        except GONE as error:
            self._fail("deliver", f"the subscriber's connection ended: {error!r}")

    async def _drain(self, socket: Socket) -> None:
        """What the publisher is told, which is nothing but errors."""
        try:
            while True:
                for envelope in await socket.hear():
                    if envelope["event"] in ("Closed", "Disconnect", "Error"):
                        self._fail("deliver", json.dumps(envelope["payload"]))
        except GONE as error:
            self._fail("deliver", f"the publisher's connection ended: {error!r}")

    async def _ask(self, kind: str) -> None:
        line: Line | None = None

        async def ask(due: float) -> None:
            nonlocal line
            try:
                line = line or await self._line()
                await self._one(kind, line, due)
            except (*GONE, Refused) as error:
                line = None
                self._fail(kind, repr(error), due)

        await self._pace(_PER_SECOND[kind], ask)

    async def _one(self, kind: str, line: Line, due: float) -> None:
        method, path, body = _PATHS[kind]
        answer = await line.ask(method, path, self._token, body)
        failed = "" if answer.status < 300 else f"{kind}: {answer.label}"
        self.samples.append(Sample(kind, due, time.monotonic() - due, failed))

    def _fail(self, kind: str, why: str, due: float | None = None) -> None:
        due = time.monotonic() if due is None else due
        self.samples.append(Sample(kind, due, LOST_SECONDS, f"{kind}: {why}"))

    async def _pace(
        self, per_second: float, act: Callable[[float], Coroutine[Any, Any, None]]
    ) -> None:
        due = time.monotonic()
        while not self._stopped:
            due += 1 / per_second
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            await act(due)
