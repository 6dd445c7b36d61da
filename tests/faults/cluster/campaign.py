"""A campaign: a cluster under load to which one thing after the other happens.

    export PYTHONPATH=.:tests
    python -m faults.cluster.campaign [--seconds 30] [--rounds 3] [--seed 7] [--only kill …]

The seed decides the order and who is hit. At the end nothing fails any more, everybody finishes,
and the books are checked.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.soak.final import check_everything_arrived
from benchmarks.soak.followers import make_followers
from benchmarks.soak.ledger import Ledger
from benchmarks.soak.plan import LIVE, STORED, Plan
from faults.cluster.checker import Pickup, check_order, check_pickups
from faults.cluster.clients import Consumer, Publisher
from faults.cluster.scene import NAMES, Scene, scene

Fault = Callable[[Scene, str, float], Awaitable[None]]

OF_A_NODE: dict[str, Fault] = {
    "kill": Scene.kill_node,
    "freeze": Scene.freeze_node,
    "stop": Scene.stop_node,
    "cut-nats": Scene.cut_node_from_nats,
    "cut-postgres": Scene.cut_node_from_postgres,
    "cut-all": Scene.cut_node_from_all,
    "two-owners": Scene.silence_node,
    "cable": Scene.pull_cable,
}
OF_ALL: dict[str, Fault] = {
    "roll": Scene.roll,
    "nats-restart": Scene.nats_restarted,
    "nats-away": Scene.nats_away,
    "postgres-restart": Scene.postgres_restarted,
    "postgres-away": Scene.postgres_away,
    "no-connections": Scene.no_connections_left,
    "read-only": Scene.read_only,
}
FAULTS = {**OF_A_NODE, **OF_ALL}
GRACEFUL = ("stop", "roll")
"""Nobody is refused anything meanwhile."""
_CALM_SECONDS = 0.5
_FINISH_SECONDS = 60.0


@dataclass
class Row:
    """What happened once."""

    fault: str
    node: str
    refused: int
    settled_seconds: float


@dataclass
class Report:
    ledger: Ledger
    rows: list[Row] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        return not self.ledger.problems

    def __str__(self) -> str:
        lines = [f"{'fault':<18}{'node':<8}{'refused':>8}{'serving again':>15}"]
        lines += [
            f"{row.fault:<18}{row.node:<8}{row.refused:>8}{row.settled_seconds:>13.2f} s"
            for row in self.rows
        ]
        lines += [f"{count:>9,} {what}" for what, count in sorted(self.ledger.counts.items())]
        lines.append(f"{len(self.ledger.problems)} problems, {self.seconds:.0f} seconds")
        return "\n".join([*lines, *self.ledger.problems[:20]])


class Campaign:
    """`schedule` has the name of each fault and of the node that it hits, "" for none."""

    def __init__(
        self, on: Scene, schedule: Sequence[tuple[str, str]], seconds: float, per_second: float
    ) -> None:
        self._scene = on
        self._schedule = schedule
        self._seconds = seconds
        self._report = Report(Ledger())
        ledger = self._report.ledger
        self._publishers = [
            Publisher(f"{name}{number}", on.door(name), ledger, per_second)
            for name in NAMES
            for number in range(2)
        ]
        self._followers = [
            follower
            for name in NAMES
            for follower in make_followers(on.door(name), ledger, Plan(seconds))
        ]
        self._consumers = [
            Consumer(Pickup(f"of-{name}", channel, ledger), on.door(name))
            for name, channel in zip(NAMES, STORED, strict=False)
        ]

    async def run(self) -> Report:
        begun = time.monotonic()
        stopping = asyncio.Event()
        await self._scene.settle()
        await self._scene.begin(STORED)
        self._report.ledger.uncertain.add("first-1")
        async with asyncio.TaskGroup() as group:
            reading = [group.create_task(each.run()) for each in self._followers]
            reading += [group.create_task(each.run()) for each in self._consumers]
            writing = [group.create_task(each.run(stopping)) for each in self._publishers]
            await asyncio.sleep(_CALM_SECONDS)
            for fault, node in self._schedule:
                await self._suffer(fault, node)
            stopping.set()
            await asyncio.wait(writing)
            await self._finish()
            for task in reading:
                task.cancel()
        self._report.seconds = time.monotonic() - begun
        return self._report

    async def _suffer(self, fault: str, node: str) -> None:
        ledger = self._report.ledger
        before = len(self._refusals())
        ledger.phase = f"{fault} {node}".strip()
        try:
            await FAULTS[fault](self._scene, node, self._seconds)
            settled = await self._scene.settle()
        except TimeoutError:
            ledger.problem("the cluster did not serve again")
            settled = float("inf")
        await asyncio.sleep(_CALM_SECONDS)
        refusals = self._refusals()
        self._report.rows.append(Row(fault, node, len(refusals) - before, settled))
        if len(refusals) > before and fault in GRACEFUL:
            ledger.problem(f"publishes were refused, the last of {refusals[-1]}")
        ledger.phase = ""

    async def _finish(self) -> None:
        ledger = self._report.ledger
        tracks = [follower.track for follower in self._followers]
        pickups = [consumer.pickup for consumer in self._consumers]
        await check_everything_arrived(self._scene.door(NAMES[0]), ledger, tracks, STORED)
        try:
            async with asyncio.timeout(_FINISH_SECONDS):
                while not self._picked_up(pickups):
                    await asyncio.sleep(0.05)
        except TimeoutError:
            pass  # the check says what is missing
        check_pickups(pickups)
        check_order(ledger)
        if not any(count for what, count in ledger.counts.items() if "live publishes" in what):
            ledger.problem(f"nothing was published in {LIVE}")

    def _picked_up(self, pickups: list[Pickup]) -> bool:
        told = self._report.ledger.acknowledged
        return all(
            pickup.serial >= max(told.get(pickup.channel, {}).values(), default=0)
            for pickup in pickups
        )

    def _refusals(self) -> list[str]:
        return [refusal for publisher in self._publishers for refusal in publisher.refusals]


def schedule_of(faults: Sequence[str], rounds: int, seed: int) -> list[tuple[str, str]]:
    """Every fault, those of a node for each node, in an order that the seed decides."""
    chance = random.Random(seed)
    schedule = []
    for _ in range(rounds):
        each = [(f, n) for f in faults for n in (NAMES if f in OF_A_NODE else ("",))]
        chance.shuffle(each)
        schedule += each
    return schedule


async def run(
    folder: Path, schedule: Sequence[tuple[str, str]], seconds: float, per_second: float = 20
) -> Report:
    async with scene(folder) as on:
        return await Campaign(on, schedule, seconds, per_second).run()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m faults.cluster.campaign")
    parser.add_argument("--seconds", type=float, default=30, help="how long each fault lasts")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", choices=list(FAULTS), help="(repeatable)")
    parser.add_argument("--keep", type=Path, help="a new folder for the logs")
    given = parser.parse_args()
    schedule = schedule_of(given.only or list(FAULTS), given.rounds, given.seed)
    with tempfile.TemporaryDirectory(prefix="hubbub-faults-") as name:
        folder = given.keep or Path(name)
        folder.mkdir(exist_ok=True)
        report = asyncio.run(run(folder, schedule, given.seconds))
    print(report)
    return 0 if report.good else 1


if __name__ == "__main__":
    sys.exit(main())
