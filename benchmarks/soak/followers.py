"""Followers: each stays with one channel for the whole soak, over many connections, and checks
every message that it gets."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import aiohttp

from benchmarks.soak.ledger import Ledger, Track
from benchmarks.soak.plan import LIVE, STORED, Plan
from benchmarks.soak.wire import ANSWER_SECONDS, LOST, Door, open_socket, read_events

_STAY_SECONDS = (5, 40)
_AWAY_SECONDS = 0.4


class Follower:
    """Leaves now and then on its own account, and comes back to where it was."""

    def __init__(self, track: Track, hub: Door, by_socket: bool) -> None:
        self.track = track
        self._hub = hub
        self._listen = self._by_socket if by_socket else self._by_stream
        self._last_id = ""

    async def run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(random.uniform(*_STAY_SECONDS)):
                    await self._listen()
            except LOST:
                self.track.ledger.counts["connections of followers"] += 1
            await asyncio.sleep(random.uniform(0, _AWAY_SECONDS))

    async def _by_socket(self) -> None:
        track = self.track
        socket = await open_socket(self._hub)
        try:
            wanted: dict[str, Any] = {"channel": track.channel}
            asked = track.serial is not None
            if asked:
                wanted |= {"epoch": track.epoch, "serial": str(track.serial)}
            await socket.send("Subscribe", reqID=1, channels=[wanted])
            while True:
                self._heard(*await socket.next(), asked)
        finally:
            await socket.leave()

    async def _by_stream(self) -> None:
        timeout = aiohttp.ClientTimeout(total=None, sock_read=ANSWER_SECONDS)
        asked = bool(self._last_id)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            async for identifier, name, data in read_events(
                session, self._hub, self.track.channel, self._last_id
            ):
                self._heard(name or "Publish", data, asked)
                self._last_id = identifier
        raise EOFError("the stream ended")

    def _heard(self, event: str, payload: dict[str, Any], asked: bool) -> None:
        track = self.track
        if event == "Subscribe":
            for failure in payload["failures"]:
                if not failure["error"]["retry"]:
                    track.ledger.problem(f"{track.who}: {failure}")
                raise EOFError("not subscribed")
            for confirmed in payload["channels"]:
                serial = int(confirmed["serial"])
                track.begin(confirmed["epoch"], serial, confirmed["recovered"], asked)
        elif event == "Publish":
            track.take(int(payload.get("channelSerial", 0)), payload["payload"]["json"]["id"])
        elif event == "ChannelReset":
            epoch, serial = payload["epoch"], int(payload["serial"])
            track.gap(f"reset from {track.epoch} #{track.serial} to {epoch} #{serial}")
            track.epoch, track.serial = epoch, serial


def make_followers(hub: Door, ledger: Ledger, plan: Plan) -> list[Follower]:
    """Of every channel some by WebSocket and some by SSE."""
    return [
        Follower(
            Track(f"{'stream' if number % 2 else 'socket'} {number}", channel, stored, ledger),
            hub,
            by_socket=number % 2 == 0,
        )
        for stored, channels in ((True, STORED), (False, LIVE))
        for channel in channels
        for number in range(plan.followers_per_channel)
    ]
