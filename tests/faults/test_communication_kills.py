"""A hub that sends messages to peers is killed: every message gets exactly one verdict, and every
delivery goes out at least once, always under the same key."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from collections import defaultdict
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PROGRAM = Path(__file__).with_name("communicating_hub.py")
VERDICTS = {
    "ann": "ACK",
    "lost": "COMERROR",
    "collective:all": "ACK",
    "collective:any": "ACK",
    "nobody": "DELIVERYERROR",
    "turns": "ACK",
    "collective:order": "ACK",
    "held": "TIMEOUT",
}
REACHED = {
    "ann": {"ann": 1},
    "collective:all": {"ann": 1, "bob": 2},
    "collective:any": {"bob": 2},
    "turns": {"turns": 1},
    "collective:order": {"turns": 1, "ann": 0},
}
"""Of each receiver, the peers and how many of their addresses take messages."""


async def start(folder: Path, *mode: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        str(PROGRAM),
        str(folder),
        *mode,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
    )


async def send_and_kill(folder: Path, seconds: float) -> set[str]:
    """The ids that were answered before the end."""
    process = await start(folder, "send")
    assert process.stdout is not None
    answered = {(await process.stdout.readline()).decode().strip()}
    await asyncio.sleep(seconds)
    process.kill()
    rest = await process.stdout.read()
    await process.wait()
    whole = rest.decode().rpartition("\n")[0]
    return answered | set(whole.split())


async def settle(folder: Path) -> list[list[str]]:
    process = await start(folder, "settle")
    said, _ = await process.communicate()
    assert process.returncode == 0
    return [json.loads(line) for line in said.splitlines()]


async def kill_again_and_again(folder: Path, times: int, seed: int) -> int:
    """Answers how many messages were sent and answered."""
    chance = random.Random(seed)
    answered: set[str] = set()
    for _ in range(times):
        answered |= await send_and_kill(folder, chance.uniform(0.0, 0.3))
    assert {"held", "ann"} <= await check(folder, answered)
    return len(answered)


async def check(folder: Path, answered: set[str]) -> set[str]:
    """Have what is open decided, and look at every message; answers the receivers that were named.
    Nothing of a message is left open, lost or said twice."""
    logged = await settle(folder)
    receivers = {each[0]: each[3] for each in logged if each[1] == "ALARM"}
    assert answered <= set(receivers), "an answered message is lost"
    reports = defaultdict(list)
    for _, event, subtype, _, refers_to in logged:
        if event == "CONTROL":
            reports[refers_to].append(subtype)
    for message_id, receiver in receivers.items():
        assert reports[message_id] == [VERDICTS[receiver]], (message_id, receiver)
    assert set(reports) == set(receivers)
    check_deliveries(folder, receivers)
    return set(receivers.values())


def check_deliveries(folder: Path, receivers: dict[str, str]) -> None:
    keys: dict[tuple[str, str], set[str]] = defaultdict(set)
    whole = (folder / "deliveries").read_text().rpartition("\n")[0]
    for line in whole.splitlines():
        message_id, peer, key = line.split()
        keys[message_id, peer].add(key)
    for message_id, receiver in receivers.items():
        got = {peer: len(keys[message_id, peer]) for peer in REACHED.get(receiver, {})}
        assert got == REACHED.get(receiver, {}), (message_id, receiver)


@pytest.mark.spec("COMM-05", "COMM-10", "COMM-11")
@pytest.mark.timeout(120)
async def test_a_kill_neither_loses_nor_doubles_a_verdict(tmp_path: Path) -> None:
    assert await kill_again_and_again(tmp_path, 3, seed=1)


STEPS = [
    *("before ALARM", "after ALARM", "before plan", "after plan", "before push", "after push"),
    *("before outcome", "after outcome", "before CONTROL", "after CONTROL"),
]


@pytest.mark.spec("COMM-05", "COMM-11", "COMM-13")
@pytest.mark.timeout(60)
@pytest.mark.parametrize("receiver", ["collective:all", "collective:order"])
@pytest.mark.parametrize("step", STEPS)
async def test_a_kill_at_any_step_neither_loses_nor_doubles_a_verdict(
    tmp_path: Path, step: str, receiver: str
) -> None:
    process = await start(tmp_path, step, receiver)
    said, _ = await process.communicate()
    assert process.returncode == -signal.SIGKILL, "the step was never reached"
    answered = set(said.decode().split())
    named = await check(tmp_path, answered)
    assert named == (set() if step == "before ALARM" else {receiver})


@pytest.mark.long
@pytest.mark.spec("COMM-05", "COMM-11")
@pytest.mark.timeout(3600)
async def test_a_hundred_kills_neither_lose_nor_double_a_verdict(tmp_path: Path) -> None:
    print(await kill_again_and_again(tmp_path, 100, seed=2), "messages")
