"""What a backup costs: how long it takes, and how long publishers wait for their acknowledgement
meanwhile. `python -m benchmarks.backup --megabytes 200`."""

from __future__ import annotations

import argparse
import asyncio
import base64
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import aiohttp

from benchmarks.hub import HUB, Hubbub, hubbub

_PAYLOAD_BYTES = 6_000
_BATCH = 100
_QUIET_SECONDS = 5.0
_PUBLISHERS = 10


async def fill(session: aiohttp.ClientSession, megabytes: int) -> None:
    """Half of it random, so that packing has something to do."""
    for number in range(megabytes * 1_000_000 // (_PAYLOAD_BYTES * _BATCH)):
        texts = [base64.b64encode(os.urandom(_PAYLOAD_BYTES // 2)).decode() for _ in range(_BATCH)]
        items = [
            {
                "channel": f"log:{number % 50}",
                "payload": {"text": text + "x" * (_PAYLOAD_BYTES - len(text))},
                "extra": {"store": True},
            }
            for text in texts
        ]
        async with session.post(f"/v1/hubs/{HUB}/messages", json={"publishes": items}) as answer:
            answer.raise_for_status()


async def publish(session: aiohttp.ClientSession, number: int, waits: list[float]) -> None:
    """One after the other, each stored and acknowledged, until cancelled."""
    url = f"/v1/hubs/{HUB}/channels/log:p{number}/messages?store=true"
    while True:
        began = time.perf_counter()
        async with session.post(url, data=b"x" * 200) as answer:
            answer.raise_for_status()
        waits.append(time.perf_counter() - began)
        await asyncio.sleep(0.01)


def back_up(data: Path, target: Path) -> float:
    began = time.perf_counter()
    program = Path(sys.executable).with_name("hubbub")
    subprocess.run(
        [program, "backup", target, "--data", data], check=True, stdout=subprocess.DEVNULL
    )
    return time.perf_counter() - began


async def measure(hub: Hubbub, megabytes: int, folder: Path) -> None:
    data = hub.config.parent / "data"
    async with aiohttp.ClientSession(f"http://127.0.0.1:{hub.port}") as session:
        await fill(session, megabytes)
        waits: list[float] = []
        publishers = [
            asyncio.create_task(publish(session, number, waits)) for number in range(_PUBLISHERS)
        ]
        await asyncio.sleep(_QUIET_SECONDS)
        alone, beside = sorted(waits), len(waits)
        seconds = await asyncio.to_thread(back_up, data, folder / "backup.tar.gz")
        during = sorted(waits[beside:])
        for task in publishers:
            task.cancel()
    size = sum(path.stat().st_size for path in data.glob("hubbub.db*")) / 1e6
    packed = (folder / "backup.tar.gz").stat().st_size / 1e6
    print(f"a store of {size:.0f} MB: {seconds:.1f} s, {packed:.0f} MB packed")
    for name, found in (("without a backup", alone), ("during the backup", during)):
        print(f"  {name:18} {describe(found)}")


def describe(waits: list[float]) -> str:
    at = (waits[len(waits) // 2], waits[len(waits) * 99 // 100], waits[-1])
    half, most, worst = (f"{wait * 1000:.1f}" for wait in at)
    return f"{len(waits)} publishes acknowledged, ms: {half} median, {most} p99, {worst} at most"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=200)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="backup-", dir="data"))
    try:
        with hubbub() as hub:
            asyncio.run(measure(hub, given.megabytes, folder))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
