"""Counters of hubs by five minutes and in total."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hubbub.domain.metering import PEAKS, CountedFigures, FiguresAt, HourOfDay, MeteredSlot
from hubbub.storage.sql.connection import Sql, insert, single_statement

_KEY = ("hub", "at", "life")

_SUMS = CountedFigures.__struct_fields__
_CHANGES = ", ".join(
    [
        *(f"{name} = metering.{name} + excluded.{name}" for name in _SUMS),
        *(
            f"{name} = CASE WHEN metering.{name} > excluded.{name} THEN metering.{name}"
            f" ELSE excluded.{name} END"
            for name in PEAKS
        ),
    ]
)
_ADD = insert(
    "metering",
    {
        "hub": "text", "at": "bigint", "life": "text",
        **dict.fromkeys((*_SUMS, *PEAKS), "bigint"),
    },
    f"ON CONFLICT ({', '.join(_KEY)}) DO UPDATE SET {_CHANGES}",
)  # fmt: skip
_OF_SLOT = ", ".join(f"CAST(sum({name}) AS BIGINT) AS {name}" for name in _SUMS)
_OF_STEP = ", ".join(f"CAST(sum({name}) AS BIGINT)" for name in _SUMS)


class MeteringWrites:
    """Part of `Writes`; runs in its transactions."""

    _sql: Sql

    async def add_metered(self, slots: Sequence[MeteredSlot]) -> None:
        totals: dict[str, list[int]] = {}
        for slot in slots:
            total = totals.setdefault(slot.hub, [0] * len(_SUMS))
            for place, name in enumerate(_SUMS):
                total[place] += getattr(slot, name)
        nothing = (0,) * len(PEAKS)
        rows = [msgspec.structs.astuple(slot) for slot in slots]
        rows += [(hub, 0, "", *total, *nothing) for hub, total in totals.items()]
        await self._sql.execute_many(_ADD, sorted(rows))

    async def delete_metered_before(self, time: int, limit: int) -> int:
        """Deletes at most `limit` slots."""
        return await self._sql.execute(
            "DELETE FROM metering WHERE (hub, at, life) IN"
            " (SELECT hub, at, life FROM metering WHERE at > 0 AND at < $1 LIMIT $2)",
            time,
            limit,
        )


class MeteringReads:
    """Part of `Reads`."""

    _sql: Sql

    @single_statement
    async def read_metered(self, hub: str, since: int, until: int, step: int) -> list[FiguresAt]:
        rows = await self._sql.fetch(
            f"SELECT {_OF_STEP}, at / $4 * $4 AS begun,"  # noqa: S608 - names only
            " max(sessions), max(channels), max(hubs) FROM"
            f" (SELECT at, {_OF_SLOT},"
            " CAST(sum(sessions_before + sessions_opened) AS BIGINT) AS sessions,"
            " CAST(sum(channels) AS BIGINT) AS channels, max(hubs) AS hubs FROM metering"
            " WHERE hub = $1 AND at >= $2 AND at > 0 AND at < $3 GROUP BY at) AS slot"
            " GROUP BY begun ORDER BY begun",
            hub,
            since,
            until,
            step,
        )
        return [FiguresAt(*row) for row in rows]

    @single_statement
    async def read_metered_hours(self, hub: str, since: int, until: int) -> list[HourOfDay]:
        rows = await self._sql.fetch(
            "SELECT at % 86400 / 3600 AS hour, CAST(sum(sessions_opened) AS BIGINT),"
            " CAST(sum(sessions_ended) AS BIGINT), CAST(sum(session_us) AS BIGINT) FROM metering"
            " WHERE hub = $1 AND at >= $2 AND at > 0 AND at < $3 GROUP BY hour ORDER BY hour",
            hub,
            since,
            until,
        )
        return [HourOfDay(*row) for row in rows]

    @single_statement
    async def read_metered_total(self, hub: str) -> CountedFigures:
        columns = ", ".join(_SUMS)
        rows = await self._sql.fetch(
            f"SELECT {columns} FROM metering WHERE hub = $1 AND at = 0",  # noqa: S608 - names only
            hub,
        )
        return CountedFigures(*rows[0]) if rows else CountedFigures()
