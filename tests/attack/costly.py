"""`python -m attack.costly`: what the most costly request of each door takes, within all limits.

For each request it prints the CPU time of the hub's loop until the answer, and that of its longest
turn: so long everybody else waits. Both are CPU time, which other programs do not change much.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import attack.attacks
from attack.arena import RED, Arena
from attack.attacks.questions import command, costly_filters
from attack.clients import Answer, Socket, ask
from attack.ground import tenant
from harness.running_hub import NO_LIMITS
from hubbub.domain.permissions import Identity, Level
from hubbub.server.settings import load
from hubbub.server.wiring import Server

_SESSIONS = 300
_CHANNELS = 1000
_MESSAGES = 2000
_LOG = f"/v1/hubs/{RED}/channels/log%3Amuch"
_COMMANDS = f"/v1/hubs/{RED}/commands"
_ADMIN = f"/v1/admin/hubs/{RED}"
_WIDE = b"[" + b"{}," * 60_000 + b"0]"

Work = Callable[[], Awaitable[Any]]


class MeasuredLoop(asyncio.SelectorEventLoop):
    """Counts the CPU time of its turns."""

    cpu = 0.0
    longest = 0.0

    def _run_once(self) -> None:
        began = time.thread_time()
        super()._run_once()  # type: ignore[misc]
        took = time.thread_time() - began
        self.cpu += took
        self.longest = max(self.longest, took)


class Requests:
    """Sent from a thread of their own."""

    def __init__(self, arena: Arena, loop: MeasuredLoop) -> None:
        self._arena = arena
        self._loop = loop
        self._service = arena.tokens[RED]
        self.table: list[tuple[str, str, float, float]] = []

    async def send(self) -> None:
        await self._fill()
        await self._http("history", "100 messages", "GET", f"{_LOG}/messages?limit=100")
        where = "+or+".join(["payload.a%3D1"] * 500)
        path = f"{_LOG}/messages?limit=100&where={where}"
        await self._http("history, filtered", "500 comparisons, 2,000 messages", "GET", path)
        for sort in ("rank", "time"):
            some = f"q=common&order={sort}&limit=100"
            path = f"/v1/hubs/{RED}/search?{some}"
            await self._http("search", f"{_CHANNELS} channels, by {sort}", "GET", path)
            await self._http("search", f"one channel, by {sort}", "GET", f"{path}&channel=log:much")
        none = f"/v1/hubs/{RED}/search?q=%22common+common+common%22"
        await self._http("search", f"{_CHANNELS} channels, nothing found", "GET", none)
        await self._http("threads", "limit=1000", "GET", f"{_LOG}/threads?limit=1000")
        people = {"owner": "ann@red", "participants": ["ann@red"], "active": True}
        made = command("hCreateUpdateChannel", chid="#log:much@red", **people)
        await self._http("command", "hCreateUpdateChannel", "POST", _COMMANDS, made)
        chid = {"chid": "#log:much@red"}
        for asked in (
            command("hGetLastMessages", nbLastMsg=1000, **chid),
            command("hRelevantMessages", limit=1000, **chid),
            command("hGetThreads", limit=1000, **chid),
        ):
            await self._http("command", str(asked["cmd"]), "POST", _COMMANDS, asked)
        await self._http(
            "publish", "180 KB of empty objects", "POST", f"{_LOG}/messages", _WIDE,
            Content_Type="application/json",
        )  # fmt: skip
        await self._http("history", "180 KB of empty objects", "GET", f"{_LOG}/messages?limit=100")
        order: dict[str, Any] = {
            "publishes": [{"channel": "log:more", "payload": {"json": n}} for n in range(1000)]
        }
        await self._http("publish", "1,000 stored", "POST", f"/v1/hubs/{RED}/messages", order)
        await self._http("publish, admin", "1,000 stored", "POST", f"{_ADMIN}/messages", order)
        await self._sessions()
        presence = f"/v1/hubs/{RED}/channels/crowd%3Aall/presence"
        await self._http("presence", f"{_SESSIONS} members", "GET", presence)
        for name in ("channels", "sessions", "audit", "webhooks", "subscriptions"):
            await self._http("admin", name, "GET", f"{_ADMIN}/{name}?limit=1000")
        for name in ("topology", "counters", "rules", "documents"):
            await self._http("admin", name, "GET", f"{_ADMIN}/{name}")
        await self._http("admin", "search", "GET", f"{_ADMIN}/channels?limit=1000&q=aaaaaaaab")
        await self._http("openapi", "", "GET", "/openapi.json")
        topic = f"/v1/hubs/{RED}/topics/log%3Amuch/subscriptions/s"
        await self._http("topics", "a subscription", "PUT", f"{topic}?start=first")
        await self._http("topics", "get 1,000", "POST", f"{topic}/get?limit=1000")
        grants = [{"channel": "*a" * 120 + f"b{n}", "subscribe": True} for n in range(20)]
        order = {"userID": "ann", "channels": grants}
        await self._http("tokens", "20 grants of 120 stars", "POST", f"{_ADMIN}/tokens", order)

    async def _sessions(self) -> None:
        socket = await Socket.connect(self._arena, self._service)
        channels = [{"channel": f"some-{n}"} for n in range(100)]

        async def say(event: str, answer: str, **payload: Any) -> None:
            socket.say(event, reqID=1, **payload)
            await socket.find(answer, "Error")

        await self._measured(
            "subscribe", "100 channels", lambda: say("Subscribe", "Subscribe", channels=channels)
        )
        await self._measured(
            "filter", "500 comparisons",
            lambda: say("SetFilter", "SetFilter", name="f", condition=costly_filters(1)[0]),
        )  # fmt: skip
        bomb: dict[str, list[dict[str, object]]] = {"and": [{}] * 5000}
        await self._measured(
            "filter", "16 KB, refused", lambda: say("SetFilter", "x", name="g", condition=bomb)
        )
        await self._measured(
            "subscribe", "a pattern of all channels",
            lambda: say("Subscribe", "Subscribe", channels=[{"channel": "*"}]),
        )  # fmt: skip
        crowd = []
        for number in range(_SESSIONS):
            each = await Socket.connect(self._arena)
            crowd.append(each)
            if number < 60:
                condition = {"gt": {"payload.n": -number}, **costly_filters(1)[0]}
                each.say("SetFilter", reqID=1, name="f", condition=condition)
            each.say("Subscribe", reqID=1, channels=[{"channel": "crowd:all"}])
            await each.find("Subscribe")
        items: list[dict[str, Any]] = [
            {"channel": "crowd:all", "payload": {"json": {"n": n}}} for n in range(100)
        ]
        items[-1]["reqID"] = 9

        async def publish() -> None:
            socket.say("Publish", publishes=items)
            await socket.find("Ack")
            await asyncio.sleep(2)  # the fan-out goes on behind the answer

        await self._measured("publish", "100 to 60 costly filters, 240 others", publish)
        for each in crowd:
            each.drop()
        socket.drop()

    async def _fill(self) -> None:
        for first in range(0, _MESSAGES, 100):
            items = [
                {
                    "channel": "log:much",
                    "conversationID": f"c{first + n}",
                    "relevantUntil": 4_000_000_000_000,
                    "payload": {"json": {"n": n, "text": "x" * 200 + " common"}},
                }
                for n in range(100)
            ]
            await self._post(items)
        for first in range(0, _CHANNELS, 100):
            await self._post(
                [
                    {"channel": f"log:{'a' * 40}{first + n}", "payload": {"text": "common"}}
                    for n in range(100)
                ]
            )

    async def _post(self, items: list[dict[str, Any]]) -> None:
        order = {"publishes": items}
        answer = await ask(self._arena, "POST", f"/v1/hubs/{RED}/messages", self._service, order)
        assert answer.status < 300, answer

    async def _http(
        self, door: str, what: str, method: str, path: str, body: Any = b"", **headers: str
    ) -> None:
        async def call() -> Answer:
            return await ask(self._arena, method, path, self._service, body, **headers)

        await self._measured(door, what, call)

    async def _measured(self, door: str, what: str, work: Work) -> None:
        best = (1e9, 1e9)
        label = ""
        for _ in range(3):
            await asyncio.sleep(0.05)
            before = self._loop.cpu
            self._loop.longest = 0.0
            answer = await work()
            await asyncio.sleep(0.05)
            label = answer.label if isinstance(answer, Answer) else "said"
            if isinstance(answer, Answer) and door == "command" and answer.json.get("status"):
                label = str(answer.json)
            best = min(best, (self._loop.longest, self._loop.cpu - before))
        self.table.append((door, what, best[1], best[0]))
        print(
            f"| {door} | {what} | {1e3 * best[1]:.1f} | {1e3 * best[0]:.1f} | {label}", flush=True
        )


async def _main(folder: Path, loop: MeasuredLoop) -> None:
    config = folder / "hubbub.yaml"
    keys = {
        "listener": {"port": 0},
        "storage": {"path": str(folder / "data")},
        "debug": {"level": "error"},
        "limits": NO_LIMITS,
        "hubs": {RED: tenant(allowAnonymous=True, commands=True)},
    }
    config.write_text(json.dumps(keys))
    server = Server(load(config, {}))
    await server.start()
    token = server.tokens.issue(RED, Identity(user_id="ann", level=Level.SERVICE), 3600)
    requests = Requests(Arena(server.port, {RED: token}, "127.0.0.1", 0), loop)
    done, failed = asyncio.Event(), []

    def send() -> None:
        try:
            asyncio.run(requests.send())
        except BaseException as error:
            failed.append(error)
            raise
        finally:
            loop.call_soon_threadsafe(done.set)

    print("| door | request | loop (ms of CPU) | longest turn (ms) | answer |")
    threading.Thread(target=send, daemon=True).start()
    await done.wait()
    await server.stop()
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    assert attack.attacks is not None
    with tempfile.TemporaryDirectory() as scratch:
        measured = MeasuredLoop()
        with asyncio.Runner(loop_factory=lambda: measured) as runner:
            runner.run(_main(Path(scratch), measured))
