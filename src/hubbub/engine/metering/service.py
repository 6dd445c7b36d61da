"""Reads the counters that survive a restart."""

from __future__ import annotations

from hubbub.domain.metering import KeptFigures
from hubbub.ports.clock import Clock
from hubbub.ports.storage.metering import MeteringStore

MOST_STEPS = 10_000


class KeptCounters:
    def __init__(self, store: MeteringStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def read(self, hub: str, since: int | None, until: int | None, step: int) -> KeptFigures:
        """Figures from `since` to before `until` (seconds since 1970; by default the last 24
        hours), joined to steps of so many seconds, a multiple of five minutes. If these are more
        than `MOST_STEPS`, the latest."""
        now = int(self._clock.now())
        until = now + 1 if until is None else until
        since = until - 86_400 if since is None else since
        since = max(0, since, until - MOST_STEPS * step) // step * step
        return KeptFigures(
            hub=hub,
            since=since,
            until=until,
            step=step,
            total=await self._store.read_metered_total(hub),
            steps=await self._store.read_metered(hub, since, until, step),
            hours=await self._store.read_metered_hours(hub, since, until),
        )
