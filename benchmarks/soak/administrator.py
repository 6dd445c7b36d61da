"""The administrator: changes rules all the time, through the admin API."""

from __future__ import annotations

import asyncio
import itertools

import aiohttp

from benchmarks.soak.hub import Hub
from benchmarks.soak.ledger import Ledger
from benchmarks.soak.plan import HUB
from benchmarks.soak.wire import ANSWER_SECONDS, LOST

_OPEN = {"public": True, "clientPublish": True, "allowAnonymous": True}
_EVERY_SECONDS = 1.0


class Administrator:
    def __init__(self, hub: Hub, ledger: Ledger, token: str) -> None:
        self._hub = hub
        self._ledger = ledger
        self._headers = {"Authorization": f"Bearer {token}"}

    async def run(self, stopping: asyncio.Event) -> None:
        timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
        async with aiohttp.ClientSession(headers=self._headers, timeout=timeout) as session:
            for turn in itertools.count():
                await asyncio.sleep(_EVERY_SECONDS)
                if stopping.is_set():
                    return
                await self._hub.available.wait()
                try:
                    await self._change(session, turn)
                except LOST:
                    self._ledger.counts["administrators cut off"] += 1

    async def _change(self, session: aiohttp.ClientSession, turn: int) -> None:
        """Open and close the gate, switch presence on and off, add and drop namespaces."""
        crowd = {
            **_OPEN,
            "presence": turn % 3 == 0,
            "occupancy": turn % 4 == 0,
            "liveHistory": turn % 5 == 0,
        }
        await self._send(session, "PUT", "rules/gate", {**_OPEN, "public": turn % 2 == 0})
        await self._send(session, "PUT", "rules/crowd", crowd)
        await self._send(session, "PUT", f"namespaces/passing-{turn % 7}", {"rules": "crowd"})
        await self._send(session, "DELETE", f"namespaces/passing-{(turn + 3) % 7}")

    async def _send(
        self, session: aiohttp.ClientSession, method: str, path: str, body: object = None
    ) -> None:
        url = f"http://127.0.0.1:{self._hub.port}/v1/admin/hubs/{HUB}/{path}"
        async with session.request(method, url, json=body) as answer:
            gone = method == "DELETE" and answer.status == 404
            if answer.status < 300 or gone:
                self._ledger.counts["changes of rules"] += 1
            elif self._hub.available.is_set():
                self._ledger.problem(f"{method} {path}: {answer.status} {await answer.text()}")
