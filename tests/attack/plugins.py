"""`python -m attack.plugins`: what hostile plugins get, and how another tenant fares meanwhile.

Prints the tables of docs/security.md. A tenant sends the command of a hostile plugin from eight
connections, one after the other; another tenant publishes 50 messages a second, each due at a
fixed time.
"""

from __future__ import annotations

import asyncio
import math
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from harness.hostile_plugins import HOSTILE, Hostile
from harness.hub_process import HubProcess
from harness.running_hub import Socket

ATTACKERS = 8
SECONDS = 1.0
PER_SECOND = 50
OPEN = {"public": True, "clientPublish": True, "allowAnonymous": True}


@dataclass(frozen=True, slots=True)
class Row:
    """Latencies in milliseconds, memory in MiB."""

    name: str
    got: str
    answered: int
    p50: float
    p99: float
    hub_mib: float
    workers_mib: float


async def main() -> None:
    for analyse in (True, False):
        with tempfile.TemporaryDirectory(prefix="attack-") as folder:
            rows = await _measure(Path(folder), analyse)
        print(f"\n{'as it is' if analyse else 'static analysis off'}\n")
        print("| plugin | what it got | answers/s | other tenant p50, p99 | hub | workers |")
        print("|---|---|---|---|---|---|")
        for row in rows:
            print(
                f"| {row.name} | {row.got} | {row.answered / SECONDS:.0f} | {row.p50:.1f} ms,"
                f" {row.p99:.1f} ms | {row.hub_mib:.0f} MiB | {row.workers_mib:.0f} MiB |",
                flush=True,
            )


async def _measure(folder: Path, analyse: bool) -> list[Row]:
    plugins = folder / "plugins"
    plugins.mkdir()
    for hostile in HOSTILE:
        (plugins / f"{hostile.name}.py").write_text(hostile.code)
    (plugins / "good.py").write_text("async def run(command, context):\n    return 1\n")
    hub = {"settings": {"commands": True, "allowAnonymous": True, "defaultRules": "open"}}
    hub["rules"] = {"open": OPEN}
    process = HubProcess(
        folder,
        {"red": hub, "blue": hub},
        hcommands={"path": str(plugins), "staticAnalysis": analyse},
    )
    async with process:
        await process.start()
        socket, token = await process.socket("blue"), await process.token("red", "eve")
        calm = (Hostile("(no command)", "", None, ""), Hostile("good", "", None, ""))
        chosen = [each for each in HOSTILE if not analyse or each.refused_by is None]
        return [await _row(process, socket, token, each) for each in (*calm, *chosen)]


async def _row(process: HubProcess, socket: Socket, token: str, hostile: Hostile) -> Row:
    base = f"http://{process.host}:{process.port}"
    async with aiohttp.ClientSession(base, headers={"Authorization": f"Bearer {token}"}) as client:
        until = asyncio.get_running_loop().time() + SECONDS
        attackers = [
            asyncio.create_task(_attack(client, hostile.name, until))
            for _ in range(ATTACKERS if hostile.name.isidentifier() else 0)
        ]
        latencies = await _publish(socket, until)
        answers = [answer for each in await asyncio.gather(*attackers) for answer in each]
    hub_mib, workers_mib = _memory(process)
    latencies.sort()
    got = f"{answers[0]['status']}: {answers[0].get('result')}"[:60] if answers else "nothing"
    return Row(
        hostile.name,
        got.replace("|", "/"),
        len(answers),
        latencies[len(latencies) // 2] * 1e3,
        latencies[math.ceil(len(latencies) * 0.99) - 1] * 1e3,
        hub_mib,
        workers_mib,
    )


async def _attack(client: aiohttp.ClientSession, cmd: str, until: float) -> list[dict[str, Any]]:
    answers = []
    command = {"reqid": "1", "sender": "eve@red", "entity": "hnode@red", "cmd": cmd}
    while asyncio.get_running_loop().time() < until:
        async with client.post("/v1/hubs/red/commands", json=command) as answer:
            answers.append(await answer.json())
    return answers


async def _publish(socket: Socket, until: float) -> list[float]:
    """The latency of each, from when it was due."""
    loop = asyncio.get_running_loop()
    due, latencies = loop.time(), []
    while due < until:
        await asyncio.sleep(max(0.0, due - loop.time()))
        await socket.publish("news", {"json": 1})
        latencies.append(loop.time() - due)
        due += 1 / PER_SECOND
    return latencies


def _memory(process: HubProcess) -> tuple[float, float]:
    """Resident, of the hub and of all its plugin workers."""
    workers = 0.0
    for task in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(task.read_text().rpartition(")")[2].split()[1])
            is_worker = b"plugins.worker" in (task.parent / "cmdline").read_bytes()
        except (OSError, ValueError):
            continue
        if parent == process.pid and is_worker:
            workers += _resident(task.parent)
    return _resident(Path(f"/proc/{process.pid}")), workers


def _resident(folder: Path) -> float:
    try:
        return int((folder / "statm").read_text().split()[1]) * 4096 / 2**20
    except OSError:
        return 0.0


if __name__ == "__main__":
    asyncio.run(main())
