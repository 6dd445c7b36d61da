"""How 5,000 clients of the JavaScript SDK come back after SIGKILL of their hub.

The hub keeps its admission (`listener.connectionsPerSecond`); the limit for one address is off,
because all clients have the same here.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.servers import free_port
from harness.hub_process import HubProcess
from harness.node import ROOT, node

_CHANNELS = 50
_PROCESSES = 4
_BURST = 20
_RULES = {"public": True, "clientPublish": True, "allowAnonymous": True, "store": True}
_HUBS = {
    "crowd": {
        "settings": {"allowAnonymous": True, "defaultRules": "open"},
        "rules": {"open": {**_RULES, "storeByDefault": True}},
    }
}


class Crowd:
    """Processes with many clients each."""

    def __init__(self, processes: list[Process]) -> None:
        self._processes = processes

    @classmethod
    async def open(cls, url: str, clients: int) -> Crowd:
        script = str(ROOT / "web" / "sdk" / "bench" / "crowd.mjs")
        share = clients // _PROCESSES
        arguments = (script, url, str(share), str(_CHANNELS))
        processes = [
            await asyncio.create_subprocess_exec(node(), *arguments, stdin=PIPE, stdout=PIPE)
            for _ in range(_PROCESSES)
        ]
        crowd = cls(processes)
        await crowd.connected(0.0, 120)
        return crowd

    async def connected(self, since: float, seconds: float) -> float:
        """When the last of all clients was connected, after `since` (seconds since 1970)."""
        async with asyncio.timeout(seconds):
            found = await asyncio.gather(*[_connected(each, since) for each in self._processes])
        return max(found)

    async def report(self) -> list[dict[str, Any]]:
        for each in self._processes:
            assert each.stdin is not None
            each.stdin.write(b"\n")
        return [await _line(each, "least") for each in self._processes]

    async def close(self) -> None:
        for each in self._processes:
            each.kill()
            await each.wait()


async def _line(process: Process, key: str) -> dict[str, Any]:
    """The next line that has `key`."""
    assert process.stdout is not None
    while line := await process.stdout.readline():
        said: dict[str, Any] = json.loads(line)
        if key in said:
            return said
    raise RuntimeError("a process of clients ended")


async def _connected(process: Process, since: float) -> float:
    while True:
        at = float((await _line(process, "connected"))["connected"]) / 1000
        if at >= since:
            return at


async def _publish(port: int, first: int) -> None:
    items = [
        {"channel": f"room:{channel}", "payload": {"json": first + number}}
        for number in range(_BURST)
        for channel in range(_CHANNELS)
    ]
    url = f"http://127.0.0.1:{port}/v1/hubs/crowd/messages"
    async with aiohttp.ClientSession() as session:
        for start in range(0, len(items), 500):
            body = {"publishes": items[start : start + 500]}
            async with session.post(url, json=body) as answer:
                said = json.loads(await answer.text())
                assert all(each["success"] for each in said["published"]), said


async def _received(crowd: Crowd, last: int) -> list[dict[str, Any]]:
    """As soon as all clients have all messages, or after half a minute."""
    found: list[dict[str, Any]] = []
    attempts: list[list[Any]] = [[] for _ in range(_PROCESSES)]
    for _ in range(150):
        found = await crowd.report()
        for each, seen in zip(found, attempts, strict=True):
            seen += each["attempts"]
            each["attempts"] = seen
        if min(each["least"] for each in found) >= last:
            break
        await asyncio.sleep(0.2)
    return found


async def _outage(hub: HubProcess, crowd: Crowd, away: float, allowed: float, first: int) -> bool:
    """The hub is away for so many seconds; answers whether all came back in time, with all."""
    await _publish(hub.port, first)
    await _received(crowd, first + _BURST - 1)
    await hub.kill()
    await asyncio.sleep(away)
    await hub.start()
    back = time.time()
    await _publish(hub.port, first + _BURST)  # most clients are not there yet
    last = await crowd.connected(back, 120)
    found = await _received(crowd, first + 2 * _BURST - 1)
    took = last - back
    least = min(each["least"] for each in found)
    wrong = sum(each["gaps"] + each["disorder"] for each in found)
    streams = sum(each["streams"] for each in found)
    seconds: dict[int, int] = {}
    for each in found:
        for second, count in each["attempts"]:
            seconds[second] = seconds.get(second, 0) + count
    peak = max((count for second, count in seconds.items() if second >= int(back)), default=0)
    complete = least == first + 2 * _BURST - 1 and not wrong
    lost = "nothing lost" if complete else f"LOST: only {least}, {wrong} gaps or repeats"
    print(
        f"away for {away:.0f} s: all back {took:.1f} s after its return ({allowed:.0f} allowed), "
        f"at most {peak:,} attempts in a second, {sum(seconds.values()):,} in all; {lost}; "
        f"{streams} over streams",
        flush=True,
    )
    return complete and took <= allowed


async def _run(clients: int, quick: bool) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        listener = {"port": free_port()}
        async with HubProcess(Path(folder), _HUBS, listener=listener) as hub:
            await hub.start()
            crowd = await Crowd.open(f"http://127.0.0.1:{hub.port}", clients)
            try:
                print(f"{clients:,} clients in {_PROCESSES} processes, {_CHANNELS} stored channels")
                passed = await _outage(hub, crowd, 5, 15, 1)
                if quick:
                    return passed
                return await _outage(hub, crowd, 60, 25, 1 + 2 * _BURST) and passed
            finally:
                await crowd.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=5000)
    parser.add_argument("--quick", action="store_true", help="only the short outage")
    arguments = parser.parse_args()
    raise SystemExit(not asyncio.run(_run(arguments.clients, arguments.quick)))


if __name__ == "__main__":
    main()
