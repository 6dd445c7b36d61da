"""The real command with a warm Spark, whose parts a test kills at moments that it chooses."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

from harness.pipeline_runs import write_journal
from harness.processes import jvms_of, wait_until_gone
from harness.segments import replace_segments
from hubbub.pipeline.catalogue import TABLES
from hubbub.pipeline.tables.location import Location
from hubbub.pipeline.tables.rounds import last_done, versions
from hubbub.pipeline.tables.snapshot import open_snapshot

DEADLINE_SECONDS = 240
STARTING = "starting Spark"
STAGES = (
    STARTING,
    "taking in",
    "looking",
    "taking out",
    "sessions",
    "threads",
    "committing",
)
"""The stages that the command reports, in order. The first one appears only if Spark is not running
yet."""
QUICK = (
    *("--memory", "1024"),
    *("--conf", "spark.sql.shuffle.partitions=2"),
    *("--conf", "spark.sql.codegen.wholeStage=false"),
    *("--conf", "spark.sql.codegen.factoryMode=NO_CODEGEN"),
)
"""For little data: nothing is compiled."""


@dataclass(frozen=True)
class Kill:
    """A killed process and the time: the stage of the round, seconds since the start of the stage,
    and how many tables had been committed for the round."""

    victim: str
    stage: str
    seconds: float
    committed: int


class Follower:
    """`hubbub pipeline run --follow`, and the stage that it is in."""

    def __init__(self, journal: Path, warehouse: Path, *options: str) -> None:
        self.warehouse = Location(warehouse)
        self.began: dict[str, float] = {}
        """When each stage of the current round began."""
        self.durations: dict[str, float] = {}
        """Seconds of each stage of the last whole round."""
        self.rounds = 0
        self._said: list[str] = []
        self._changed = threading.Condition()
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "hubbub.cli.main", "pipeline", "run", "--follow"),
                *("--journal", str(journal), "--warehouse", str(warehouse)),
                *("--every", "0.1", *QUICK, *options),
            ],
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._threads = [
            threading.Thread(target=self._read, args=(pipe, heard), daemon=True)
            for pipe, heard in (
                (self.process.stdout, self._hear_result),
                (self.process.stderr, self._hear_step),
            )
        ]
        for thread in self._threads:
            thread.start()

    @property
    def stage(self) -> str:
        with self._changed:
            return list(self.began)[-1] if self.began else "waiting"

    def wait_for_stage(self, stage: str) -> None:
        self._wait(lambda: stage in self.began, f"stage {stage!r}")

    def wait_for_rounds(self, count: int) -> None:
        self._wait(lambda: self.rounds >= count, f"round {count} of this process")

    def seconds_of(self, stage: str, *, cold: dict[str, float]) -> float:
        return self.durations.get(stage, cold.get(stage, 1.0))

    def python_workers(self) -> list[psutil.Process]:
        """Processes of Spark's tasks in Python; before the first task the one that forks them."""
        found: list[psutil.Process] = []
        with contextlib.suppress(psutil.NoSuchProcess):
            for jvm in jvms_of(self.process):
                found += [one for one in jvm.children(recursive=True) if "python" in one.name()]
            return [one for one in found if not one.children()]
        return []

    def committed(self) -> int:
        """Tables with a version beyond that of the last round that is done."""
        last = last_done(self.warehouse)
        known = last.versions if last else {}
        now = versions(self.warehouse)
        return sum(now.get(table) != known.get(table) for table in TABLES)

    def kill(self) -> bool:
        """The driver alone; the JVM has to end by itself."""
        left = jvms_of(self.process)
        self.process.kill()
        self.process.wait()
        self._join()
        wait_until_gone(*left)
        return True

    def kill_jvm(self) -> bool:
        found = jvms_of(self.process)
        for jvm in found:
            jvm.kill()
        return bool(found)

    def kill_python_workers(self) -> bool:
        """All of them: those of tasks that run, and those that wait for one."""
        found = self.python_workers()
        for worker in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                worker.kill()
        return bool(found)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        finally:
            self._join()

    def _join(self) -> None:
        for thread in self._threads:
            thread.join()
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()

    # -- what it says ----------------------------------------------------------------------------

    def _read(self, pipe: IO[str], heard: Callable[[str], None]) -> None:
        for line in pipe:
            with self._changed:
                self._said.append(line.rstrip())
                heard(line)
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def _hear_step(self, line: str) -> None:
        now = time.monotonic()
        if line.startswith("hubbub:"):  # the round failed
            self.began.clear()
        for stage in STAGES:
            if stage in line and line.rstrip().endswith("…"):
                self.began.pop(stage, None)  # it becomes the last one
                self.began[stage] = now

    def _hear_result(self, line: str) -> None:
        if line.startswith("round "):
            moments = [*self.began.values(), time.monotonic()]
            for stage, start, end in zip(self.began, moments, moments[1:], strict=False):
                self.durations[stage] = end - start
            self.began.clear()
            self.rounds += 1

    def _wait(self, holds: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + DEADLINE_SECONDS
        with self._changed:
            while not holds():
                alive = self.process.poll() is None and time.monotonic() < end
                assert alive, "\n".join([f"no {what}:", *self._said[-20:]])
                self._changed.wait(1)


class Campaign:
    """A journal that grows by a piece for each kill. A piece adds a segment and, as compaction
    would, puts another one in the place of an earlier one: every stage has work."""

    def __init__(self, folder: Path, seed: int, *options: str) -> None:
        self.journal = folder / "journal"
        self.warehouse = folder / "warehouse"
        self.kills: list[Kill] = []
        self._options = options
        self._chance = random.Random(seed)
        self._cold: dict[str, float] = {}
        self._follower: Follower | None = None
        self._pieces = 0
        write_journal(self.journal, [0, 1])

    @contextlib.contextmanager
    def running(self) -> Iterator[Campaign]:
        """Whole rounds before the first kill, cold and warm, and one after the last."""
        follower = self.follower()
        follower.wait_for_rounds(1)
        self._cold = dict(follower.durations)
        try:
            yield self
            self.settle()
        finally:
            if self._follower is not None:
                self._follower.stop()

    def follower(self) -> Follower:
        if self._follower is None:
            self._follower = Follower(self.journal, self.warehouse, *self._options)
        return self._follower

    def settle(self) -> None:
        """Runs rounds until one contains all segments of the journal."""
        self.write_piece()
        follower = self.follower()
        while f"n1-{1 + self._pieces:04}" not in self._taken():
            follower.wait_for_rounds(follower.rounds + 1)

    def _taken(self) -> set[str]:
        found = open_snapshot(self.warehouse).read("segments", columns=["segment"])
        return set(found["segment"].to_pylist())

    def write_piece(self) -> None:
        self._pieces += 1
        sealed, fresh = self.journal / "sealed", self.journal / "fresh"
        write_journal(fresh, [1 + self._pieces])
        for segment in (fresh / "sealed").iterdir():
            segment.rename(sealed / segment.name)
        old = f"n1-{self._pieces - 1:04}"
        shutil.copy(sealed / f"{old}.parquet", sealed / f"rewritten-{old}.parquet")
        replace_segments(self.journal, self._pieces, [old], [f"rewritten-{old}"])

    def kill(self, victim: str, stage: str, strike: Callable[[Follower], bool]) -> None:
        """At a random moment of a stage of the next round. `strike` kills, if there is anything to
        kill at that moment."""
        self.write_piece()
        follower = self.follower()
        follower.wait_for_stage(stage)
        time.sleep(self._chance.random() * follower.seconds_of(stage, cold=self._cold))
        hit, now = follower.stage, time.monotonic()
        since = now - follower.began.get(hit, now)
        if not strike(follower):
            hit = f"{hit}; there was none"
        self.kills.append(Kill(victim, hit, since, follower.committed()))
        print(as_table(self.kills).splitlines()[-1], flush=True)  # shown with -s

    def kill_driver(self, stage: str) -> None:
        self.kill("driver", stage, Follower.kill)
        self._follower = None


def as_table(kills: Sequence[Kill]) -> str:
    rows = [
        f"| {number} | {kill.victim} | {kill.stage} | {kill.seconds:.2f} | {kill.committed} |"
        for number, kill in enumerate(kills, 1)
    ]
    head = "| # | killed | stage of the round | seconds into it | tables committed |"
    return "\n".join([head, "|---|---|---|---|---|", *rows])
