"""Counters of hubs by five minutes and in total."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hubbub.domain.metering import CountedFigures, FiguresAt, HourOfDay, MeteredSlot


class MeteringStore(Protocol):
    async def add_metered(self, slots: Sequence[MeteredSlot]) -> None:
        """Adds these to what is stored of the slots, and to the totals of their hubs. Each hub and
        slot is there once at most."""

    async def read_metered(self, hub: str, since: int, until: int, step: int) -> list[FiguresAt]:
        """The steps with anything in them from `since` to before `until`, in order. `step` is a
        multiple of five minutes."""

    async def read_metered_hours(self, hub: str, since: int, until: int) -> list[HourOfDay]:
        """The hours of the day with sessions, in order."""

    async def read_metered_total(self, hub: str) -> CountedFigures: ...

    async def delete_metered_before(self, time: int) -> int:
        """Deletes slots before this time (seconds since 1970), not the totals; returns how many."""
