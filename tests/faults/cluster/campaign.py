"""A campaign: a cluster under load to which one thing after the other happens.

    export PYTHONPATH=.:tests
    python -m faults.cluster.campaign [--seconds 30] [--rounds 3] [--seed 7] [--only kill …]

The seed decides the order and who is hit. At the end nothing fails any more, everybody finishes,
and the books are checked.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import random
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.soak.final import check_everything_arrived
from benchmarks.soak.followers import make_followers
from benchmarks.soak.plan import LIVE, STORED, Plan
from faults.cluster.checker import Hearing, Pickup, check_order, check_pickups, timed
from faults.cluster.clients import Consumer, Publisher
from faults.cluster.faults import FAULTS, GRACEFUL, NEEDS_NETWORKS, OF_A_NODE, OF_ALL, UPGRADE
from faults.cluster.report import Report, Row, Service
from faults.cluster.scene import NAMES, NOW, OWN, Scene, scene
from harness.namespaces import namespaces_work

_CALM_SECONDS = 0.5
_FINISH_SECONDS = 60.0
_OF_A_NODE_SECONDS = 10.0
"""At most: by then the others have long taken over."""
_ALL_STORED = (*STORED, *OWN.values())


class Campaign:
    """`schedule` has the name of each fault and of the node that it hits, "" for none."""

    def __init__(
        self, on: Scene, schedule: Sequence[tuple[str, str]], seconds: float, per_second: float
    ) -> None:
        self._scene = on
        self._schedule = schedule
        self._seconds = seconds
        self._report = Report(on.ledger)
        self._service = Service()
        self._hearing = Hearing()
        ledger = on.ledger
        self._publishers = [
            Publisher(
                f"{name}{number}", on.door(name), ledger, self._service, self._hearing, per_second
            )
            for name in NAMES
            for number in range(2)
        ]
        self._followers = [
            follower
            for name in NAMES
            for follower in make_followers(on.door(name), ledger, Plan(seconds))
        ]
        for follower in self._followers:
            follower.track = timed(follower.track, self._hearing)
        self._consumers = [
            Consumer(Pickup(f"of-{name}", channel, ledger), on.door(name))
            for name, channel in zip(NAMES, STORED, strict=False)
        ]

    async def run(self) -> Report:
        begun = time.monotonic()
        stopping = asyncio.Event()
        await self._scene.settle()
        await self._scene.begin(_ALL_STORED)
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
        refused, acknowledged, gaps = self._so_far()
        problems = len(ledger.problems)
        self._service.begin()
        self._hearing.longest = 0.0
        ledger.phase = f"{fault} {node}".strip()
        try:
            lasting = min(self._seconds, _OF_A_NODE_SECONDS) if node else self._seconds
            await FAULTS[fault](self._scene, node, lasting)
            settled = await self._scene.settle()
        except TimeoutError:
            ledger.problem("the cluster did not serve again")
            settled = float("inf")
        for publisher in self._publishers:
            publisher.return_home()
        await asyncio.sleep(_CALM_SECONDS)
        now = self._so_far()
        hit = (node,) if node else NAMES
        others = [name for name in NAMES if name not in hit]
        row = Row(
            fault,
            node,
            now[1] - acknowledged,
            now[0] - refused,
            now[2] - gaps,
            self._service.longest(hit),
            self._service.longest(others),
            self._hearing.longest,
            settled,
        )
        self._report.rows.append(row)
        print(row, *ledger.problems[problems:], sep="\n", flush=True)
        if row.refused and fault in GRACEFUL:
            last = [each.refusals[-1] for each in self._publishers if each.refusals]
            ledger.problem(f"publishes were refused, such as {last}")
        ledger.phase = ""

    def _so_far(self) -> tuple[int, int, int]:
        """Publishes refused and accepted, and gaps that were announced."""
        counts = self._report.ledger.counts
        return (
            sum(len(publisher.refusals) for publisher in self._publishers),
            counts["stored publishes acknowledged"] + counts["live publishes acknowledged"],
            counts["gaps of live channels, announced"],
        )

    async def _finish(self) -> None:
        ledger = self._report.ledger
        tracks = [follower.track for follower in self._followers]
        pickups = [consumer.pickup for consumer in self._consumers]
        await check_everything_arrived(self._scene.door(NAMES[0]), ledger, tracks, _ALL_STORED)
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
    folder: Path,
    schedule: Sequence[tuple[str, str]],
    seconds: float,
    per_second: float = 20,
    first: Path = NOW,
    networks: bool = False,
) -> Report:
    # As long as may be: a busy machine is not to be taken for a fault.
    silence_seconds = min(3.0, max(1.0, seconds / 2))
    async with scene(folder, first, networks, silence_seconds) as on:
        return await Campaign(on, schedule, seconds, per_second).run()


def code_of(revision: str, folder: Path) -> Path:
    """The code as it was, from the history of this checkout."""
    top = NOW.parent
    packed = subprocess.run(
        ["git", "archive", revision, "src"], cwd=top, check=True, capture_output=True
    )
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m faults.cluster.campaign")
    parser.add_argument("--seconds", type=float, default=30, help="how long each fault lasts")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", choices=list(FAULTS), help="(repeatable)")
    parser.add_argument("--old", help="begin with the code of this revision, and upgrade first")
    parser.add_argument("--keep", type=Path, help="a new folder for the logs")
    given = parser.parse_args()
    networks = namespaces_work()
    faults = given.only or [*OF_A_NODE, *OF_ALL]
    if not networks:
        print(f"networks cannot be made here, without: {', '.join(NEEDS_NETWORKS)}")
        faults = [fault for fault in faults if fault not in NEEDS_NETWORKS]
    schedule = schedule_of([f for f in faults if f != UPGRADE], given.rounds, given.seed)
    if given.old:
        schedule.insert(0, (UPGRADE, ""))
    with tempfile.TemporaryDirectory(prefix="hubbub-faults-") as name:
        folder = given.keep or Path(name)
        folder.mkdir(exist_ok=True)
        first = code_of(given.old, folder / "old") if given.old else NOW
        report = asyncio.run(run(folder, schedule, given.seconds, first=first, networks=networks))
    print(report)
    return 0 if report.good else 1


if __name__ == "__main__":
    sys.exit(main())
