"""Runs one attack: quiet first, then the attack, then a look at what is left."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import resource
import time
import traceback
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import attack.attacks
import attack.drills  # noqa: F401
from attack.arena import ATTACKS, Arena, Attack, Drill, Findings
from attack.clients import carry_out
from attack.cores import attacker_cores, use_cores
from attack.ground import MEMORY_BOUND_MB, Layout, ground
from attack.victim import KINDS, Service, Victim
from benchmarks.servers import Running

P99_MS = 50.0
P99_FACTOR = 3.0
_SPAWN = multiprocessing.get_context("spawn")
_GRACE_SECONDS = 60.0
_SAMPLE_SECONDS = 0.05
_NICENESS = 5
_LEAST_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Plan:
    """Seconds of each part, and how large attacks are."""

    quiet_seconds: float = 4.0
    attack_seconds: float = 6.0
    after_seconds: float = 2.0
    scale: float = 1.0
    source: Path | None = None


@dataclass(slots=True)
class Result:
    """What came of an attack. Memory in MB, of all processes of the hub."""

    attack: Attack | Drill
    findings: Findings
    before_mb: float = 0.0
    peak_mb: float = 0.0
    after_mb: float = 0.0
    quiet: Service | None = None
    meanwhile: Service | None = None
    seconds: float = 0.0
    broken: list[str] = field(default_factory=list)

    @property
    def held(self) -> bool:
        return not self.broken

    def judge(self) -> None:
        """Fills `broken` with everything that did not hold."""
        self.broken = list(self.findings.breaches)
        if self.peak_mb > MEMORY_BOUND_MB:
            self.broken.append(f"memory reached {self.peak_mb:,.0f} MB")
        if self.quiet is None or self.meanwhile is None:
            return
        for kind in KINDS:
            quiet, now = self.quiet.p99[kind], self.meanwhile.p99[kind]
            if now > max(P99_MS, P99_FACTOR * quiet):
                self.broken.append(f"{kind}: p99 {now:,.0f} ms, {quiet:,.1f} ms when quiet")
        for failed in sorted(set(self.meanwhile.failed))[:3]:
            self.broken.append(f"the victim's {failed}")


class Gauge:
    """The resident memory of a process with its children, and its peak."""

    def __init__(self, process: Running) -> None:
        self._process = process
        self.peak_mb = 0.0

    def now_mb(self) -> float:
        return self._process.resident_kilobytes() / 1024

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            task.cancel()

    async def _watch(self) -> None:
        while True:
            self.peak_mb = max(self.peak_mb, self.now_mb())
            await asyncio.sleep(_SAMPLE_SECONDS)


async def run(attack: Attack, folder: Path, plan: Plan) -> Result:
    """On a hub of its own, with a victim that is measured."""
    layout = Layout(attack.needs, source=plan.source, measured=True)
    async with ground(folder, layout) as (_, process, arena):
        arena = replace(arena, scale=plan.scale)
        victim = Victim(arena)
        gauge = Gauge(process)
        result = Result(attack, Findings())
        await asyncio.sleep(1)  # caches are warm
        quiet_from = time.monotonic()
        await asyncio.sleep(plan.quiet_seconds)
        result.before_mb = gauge.now_mb()
        async with gauge.watching():
            begin, end, result.findings = await _attackers(attack, arena, plan.attack_seconds)
            await asyncio.sleep(plan.after_seconds)
        result.after_mb, result.peak_mb = gauge.now_mb(), gauge.peak_mb
        samples = await asyncio.to_thread(victim.stop)
        result.quiet = Service.between(samples, quiet_from, quiet_from + plan.quiet_seconds)
        # An attack of a few requests is over before the victim asks for anything.
        result.meanwhile = Service.between(samples, begin, max(end, begin + _LEAST_SECONDS))
        result.seconds = end - begin
        result.judge()
        return result


async def run_drill(drill: Drill, folder: Path, plan: Plan) -> Result:
    """Without a victim: the hub is away for a while."""
    began = time.monotonic()
    result = Result(drill, await carry_out(drill, folder, plan.source))
    result.seconds = time.monotonic() - began
    result.judge()
    return result


async def _attackers(attack: Attack, arena: Arena, seconds: float) -> tuple[float, float, Findings]:
    """The attack in a process of its own, at full speed: when it began and ended, and findings."""
    ours, theirs = _SPAWN.Pipe()
    process = _SPAWN.Process(target=_work, args=(attack.name, arena, seconds, theirs), daemon=True)
    process.start()
    try:
        begin = await _receive(ours, _GRACE_SECONDS)
        if not isinstance(begin, float):
            raise RuntimeError("the attackers did not start")
        answer = await _receive(ours, seconds + _GRACE_SECONDS)
        if answer is None:
            breach = f"the attack did not come to an end in {_GRACE_SECONDS:g} s more"
            return begin, time.monotonic(), Findings(breaches=[breach])
        end, findings = answer
        return begin, end, findings
    finally:
        process.kill()
        process.join()


async def _receive(pipe: Connection, seconds: float) -> Any:
    """None when nothing came in time."""
    return await asyncio.to_thread(lambda: pipe.recv() if pipe.poll(seconds) else None)


def _work(name: str, arena: Arena, seconds: float, pipe: Connection) -> None:
    use_cores(attacker_cores())
    os.nice(_NICENESS)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    pipe.send(time.monotonic())
    try:
        findings = asyncio.run(carry_out(ATTACKS[name], arena, seconds))
    except Exception:  # noqa: BLE001 - whatever it is, it is told in the report
        findings = Findings(breaches=[f"the attack failed: {traceback.format_exc(limit=-3)}"])
    pipe.send((time.monotonic(), findings))
