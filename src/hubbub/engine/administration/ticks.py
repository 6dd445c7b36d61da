"""Messages to open dashboards: one tick per second, computed once for all sessions.

Nothing is queried or counted for channels that nobody watches. The tokens of connected sessions are
checked every second in any case."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from heapq import nlargest
from typing import Any

import msgspec

from hubbub.domain.errors import HubbubError
from hubbub.domain.topics import FindLags
from hubbub.engine.access.revocations import ANY_HUB
from hubbub.engine.administration.alarms import Alarms
from hubbub.engine.administration.audit import AuditLog, shown
from hubbub.engine.administration.live import of_hub
from hubbub.engine.administration.survey import Glance, GlanceAt, ReadLoad, Survey
from hubbub.engine.administration.views import Topology
from hubbub.engine.administration.watching import Board
from hubbub.ports.clock import Clock
from hubbub.ports.storage.administration import AuditQuery

logger = logging.getLogger(__name__)

TICK = "tick"
_MOST_HUBS = 200
_MOST_LAGS = 50
_CHANNELS_OF_HUB = 10
_RARER = 5
"""Ticks between topologies, and between lags."""
_NEW_ENTRIES = 50
_FIGURES = ("sessions", "subscriptions", "messagesIn", "messagesOut", "bytesIn", "bytesOut")
_encode = msgspec.json.Encoder().encode


class Ticker:
    """Runs while a session is connected."""

    def __init__(self, board: Board, survey: Survey, audit: AuditLog, clock: Clock) -> None:
        self._board = board
        self._survey = survey
        self._audit = audit
        self._clock = clock
        self._alarms = Alarms(clock)
        self._task: asyncio.Task[None] | None = None
        self._said: dict[str, Any] = {}
        """The last message by channel, for channels that send changes only."""
        self._wanted = asyncio.Event()
        board.wanted = self._begin

    def _begin(self) -> None:
        self._wanted.set()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        number = 0
        self._said.clear()
        while self._occupied():
            self._wanted.clear()
            if self._board.channels:
                await self._tick(number)
                number += 1
            else:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wanted.wait(), 1.0)

    def _occupied(self) -> bool:
        """Whether a session with a valid token is connected."""
        self._board.review()
        return self._board.occupied

    async def _tick(self, number: int) -> None:
        """One tick takes a second in all."""
        began = self._clock.monotonic()
        try:
            await self.tick(number)
        except HubbubError as error:
            logger.warning("dashboards get no update: %s", error)
        except Exception:
            logger.exception("dashboards get no update")
        await asyncio.sleep(max(0.2, 1.0 - (self._clock.monotonic() - began)))

    async def tick(self, number: int) -> None:
        channels = set(self._board.channels)
        for gone in self._said.keys() - channels:
            del self._said[gone]
        glances = await self._glances(channels)
        for channel in sorted(channels):
            kind, _, hub = channel.partition(":")
            fresh = channel not in self._said
            if kind == "counters":
                self._board.say(channel, TICK, _encode(_counters(glances[hub or ANY_HUB], hub)))
                self._said[channel] = True
            elif kind == "alarms":
                self._say_alarms(channel, hub, glances[hub or ANY_HUB])
            elif kind == "audit":
                await self._say_audit(channel, hub)
            elif fresh or number % _RARER == 0:
                self._said[channel] = True
                make = self._topology if kind == "topology" else self._lag
                self._board.say(channel, TICK, await make(hub))

    async def _glances(self, channels: set[str]) -> dict[str, tuple[list[Glance], list[str]]]:
        """Glances by hub, for watched counters and alarms."""
        wanted = {
            hub or ANY_HUB
            for kind, _, hub in (channel.partition(":") for channel in channels)
            if kind in ("counters", "alarms")
        }
        found = {}
        for hub in sorted(wanted):
            found[hub] = await self._survey.ask(GlanceAt(hub))
        return found

    async def _topology(self, hub: str) -> bytes:
        found = Topology(*await self._survey.ask(ReadLoad(hub or None, _CHANNELS_OF_HUB)))
        return _encode(of_hub(found) if hub else found)

    async def _lag(self, hub: str) -> bytes:
        said: dict[str, Any] = {"at": int(self._clock.now() * 1000)}
        for name, webhooks in (("subscriptions", False), ("webhooks", True)):
            answers, _ = await self._survey.ask(FindLags(hub, webhooks))
            lags = [lag for answer in answers for lag in answer]
            said[name] = [
                {
                    "channel": lag.key.channel,
                    "owner": lag.key.owner,
                    "name": lag.key.name,
                    "lag": lag.messages,
                }
                for lag in nlargest(_MOST_LAGS, lags, key=lambda lag: lag.messages)
            ]
        return _encode(said)

    def _say_alarms(self, channel: str, hub: str, found: tuple[list[Glance], list[str]]) -> None:
        alarms = self._alarms.of(hub, *found)
        if self._said.get(channel) != alarms:
            self._said[channel] = alarms
            said = {"at": int(self._clock.now() * 1000), "alarms": alarms}
            self._board.say(channel, TICK, _encode(said))

    async def _say_audit(self, channel: str, hub: str) -> None:
        """Sends the audit entries since the last tick, the oldest first."""
        entries = await self._audit.read(AuditQuery(_NEW_ENTRIES, hub or None))
        last = self._said.get(channel)
        self._said[channel] = max((entry.id for entry in entries), default=last or 0)
        if last is not None:
            for entry in reversed([each for each in entries if each.id > last]):
                self._board.say(channel, "entry", _encode(shown(entry)))


def _counters(found: tuple[list[Glance], list[str]], hub: str) -> dict[str, Any]:
    """The sum of all nodes' counters."""
    glances, silent = found
    totals = [sum(column) for column in zip(*(each.totals for each in glances), strict=True)]
    said: dict[str, Any] = {
        "at": max((each.at for each in glances), default=0),
        "nodes": len(glances),
        "silent": silent,
        **dict(zip(_FIGURES, totals, strict=True)),
        "slowConsumers": sum(each.slow_consumers for each in glances),
        "refused": sum(each.refused for each in glances),
    }
    if not hub:
        hubs: dict[str, list[int]] = {}
        for glance in glances:
            for name, row in glance.hubs.items():
                known = hubs.get(name, [0] * len(_FIGURES))
                hubs[name] = [a + b for a, b in zip(known, row, strict=True)]
        first = nlargest(_MOST_HUBS, hubs.items(), key=lambda item: item[1])
        said["hubs"] = {name: dict(zip(_FIGURES, row, strict=True)) for name, row in first}
        said["hubCount"] = sum(glance.hub_count for glance in glances)
    return said
