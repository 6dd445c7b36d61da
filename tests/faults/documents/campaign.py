"""A campaign: ten clients edit one document at random while its owner is killed again and again.

The clients are connected to nodes that live on. Each has a producer: what is not answered is sent
again under the same sequence until it is. Each also follows the document and keeps a copy.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import signal
import time
import urllib.request
from pathlib import Path
from typing import Any

from faults.documents.checker import Report, check, follow
from harness.cluster import Ground, NodeProcess, channel_of, node_processes
from harness.running_hub import Socket

NAMES = ("east", "north", "west")
EDITORS = 10
_OPEN = {"public": True, "clientPublish": True, "allowAnonymous": True, "maxDocumentChanges": 0}
HUBS: dict[str, Any] = {
    "acme": {
        "settings": {"allowAnonymous": True, "defaultRules": "open"},
        "rules": {"open": _OPEN},
    }
}
_ANSWER_SECONDS = 5.0
_END_SECONDS = 60.0
_SERVED_CHANGES = 50
"""So many acknowledged changes after a kill: answers of the killed owner may be among the first."""


class Editor:
    """Changes the document, one change after the other, and follows it."""

    def __init__(self, name: str, socket: Socket, channel: str, seed: int, report: Report) -> None:
        self.name = name
        self.version, self.copy = 0, dict[str, Any]()
        self.acknowledged: dict[str, int] = {}
        self.answered: list[float] = []
        """When changes were acknowledged."""
        self._socket = socket
        self._channel = channel
        self._random = random.Random(seed)
        self._report = report
        self._answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def begin(self) -> None:
        await self._socket.send("Subscribe", reqID=1, channels=[{"channel": self._channel}])

    async def edit(self, stop: asyncio.Event) -> None:
        sequence = 1
        while not stop.is_set():
            change_id = f"{self.name}-{sequence}-{self._random.randrange(1 << 30)}"
            answer = await self._settle(change_id, sequence, self._operations())
            if answer["success"]:
                self.acknowledged[change_id] = answer["version"]
                self.answered.append(time.monotonic())
                self._report.repeats += answer.get("duplicate", False)
                sequence += 1
            else:
                self._report.refused += 1

    def _operations(self) -> list[dict[str, Any]]:
        value = self._random.randrange(1000)
        member = f"/members/{self._random.randrange(20)}"
        return self._random.choice(
            [
                [{"op": "add", "path": member, "value": {"by": self.name, "n": value}}],
                [{"op": "add", "path": "/log/-", "value": value}],
                [{"op": "add", "path": "/log/0", "value": value}],
                [{"op": "remove", "path": "/log/0"}],
                [{"op": "remove", "path": member}],
                [{"op": "move", "from": member, "path": f"/moved/{self.name}"}],
            ]
        )

    async def _settle(
        self, change_id: str, sequence: int, ops: list[dict[str, Any]]
    ) -> dict[str, Any]:
        """Sent again while the answer does not come or asks for that."""
        while True:
            while not self._answers.empty():
                self._answers.get_nowait()
            request = {"reqID": 5, "channel": self._channel, "ops": ops, "changeID": change_id}
            producer = {"id": self.name, "sequence": str(sequence)}
            await self._socket.send("DocumentChange", **request, producer=producer)
            with contextlib.suppress(TimeoutError):
                answer = await asyncio.wait_for(self._answers.get(), _ANSWER_SECONDS)
                if answer["success"] or not answer["error"].get("retry"):
                    return answer
                await asyncio.sleep(0.02)

    async def listen(self) -> None:
        """Keep the copy up to date; runs until it is cancelled."""
        while True:
            text = await self._socket.connection.recv()
            assert isinstance(text, str)
            for line in text.split("\n"):
                envelope = json.loads(line)
                await self._hear(envelope["event"], envelope["payload"])

    async def _hear(self, event: str, said: dict[str, Any]) -> None:
        if event == "DocumentChange":
            self._answers.put_nowait(said)
        elif event == "DocumentUpdated" and said["version"] == self.version + 1:
            self.copy, self.version = follow(self.copy, said["ops"]), said["version"]
        elif event == "DocumentGet" and said["version"] > self.version:
            self.copy, self.version = said["document"], said["version"]
        elif event in ("DocumentUpdated", "DocumentInfo") and said["version"] > self.version:
            await self._socket.send("DocumentGet", reqID=6, channel=self._channel)


async def run(folder: Path, on: Ground, kills: int, seed: int) -> Report:
    """Raises `TimeoutError` where somebody does not finish."""
    rng = random.Random(seed)
    report = Report()
    channel = channel_of("west", NAMES, "doc:list")
    async with node_processes(folder, on, HUBS, *NAMES) as nodes:
        editors = []
        for number in range(EDITORS):
            socket = await nodes[NAMES[number % 2]].socket()
            editors.append(Editor(f"e{number}", socket, channel, seed + number, report))
        listening = [asyncio.ensure_future(editor.listen()) for editor in editors]
        stop = asyncio.Event()
        for editor in editors:
            await editor.begin()
        editing = [asyncio.ensure_future(editor.edit(stop)) for editor in editors]
        try:
            for _ in range(kills):
                await asyncio.sleep(rng.uniform(0.3, 1.2))
                await _kill_owner(nodes["west"], editors, report)
            stop.set()
            async with asyncio.timeout(_END_SECONDS):
                await asyncio.gather(*editing)
            log, stored = await asyncio.to_thread(_read_back, nodes["east"], channel)
            async with asyncio.timeout(_END_SECONDS):
                while any(editor.version < len(log) for editor in editors):
                    await asyncio.sleep(0.05)
        finally:
            for task in (*editing, *listening):
                task.cancel()
    acknowledged = {k: v for editor in editors for k, v in editor.acknowledged.items()}
    report.acknowledged = len(acknowledged)
    copies = {editor.name: (editor.version, editor.copy) for editor in editors}
    return check(report, acknowledged, log, stored, copies)


async def _kill_owner(owner: NodeProcess, editors: list[Editor], report: Report) -> None:
    """SIGKILL; it is started again when another node serves its document."""
    owner.signal(signal.SIGKILL)
    killed = time.monotonic()
    await owner.ended()
    report.kills += 1
    async with asyncio.timeout(_END_SECONDS):
        while len(after := _answered_since(editors, killed)) < _SERVED_CHANGES:
            await asyncio.sleep(0.005)
    silences = [late - early for early, late in itertools.pairwise([killed, *after])]
    report.longest_gap_seconds = max(report.longest_gap_seconds, *silences)
    await owner.start()


def _answered_since(editors: list[Editor], moment: float) -> list[float]:
    return sorted(at for editor in editors for at in editor.answered if at > moment)


def _read_back(node: NodeProcess, channel: str) -> tuple[list[dict[str, Any]], Any]:
    """Every change, and the document, as another client gets them over HTTP."""
    base = f"http://{node.host}:{node.port}/v1/hubs/acme/channels/{channel}/document"
    log: list[dict[str, Any]] = []
    while True:
        after = log[-1]["version"] if log else 0
        page = _get(f"{base}/changes?after={after}&limit=500")
        log += page["changes"]
        if not page.get("more"):
            return log, _get(base)


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.load(answer)
