"""Tables written by hand, without Spark, as a round would have committed them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness.views import with_months
from hubbub.pipeline.catalogue import TABLES
from hubbub.pipeline.tables.commits import commit
from hubbub.pipeline.tables.location import Location
from hubbub.pipeline.tables.rounds import RoundLock, versions
from hubbub.pipeline.tables.staging import Stage

COMMITTED_AT = 1_793_620_800.0


def write_warehouse(
    folder: Path | Location,
    tables: Mapping[str, Sequence[Mapping[str, Any]]],
    at: float = COMMITTED_AT,
) -> None:
    """One round with these rows; what a row does not say is null. The latest event is as late as
    the round."""
    micros = int(at * 1e6)
    warehouse = folder if isinstance(folder, Location) else Location(folder)
    rounds = RoundLock(warehouse)
    with rounds.running(lambda: micros) as mine:
        for name, rows in _whole(tables).items():
            stage = Stage(str(warehouse), f"{mine.round}-by-hand")
            stage.add(name, rows)
            commit(warehouse, name, mine.round, stage.close())
        rounds.finish(finished=micros, latest=micros, versions=versions(warehouse))


def _whole(tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, pa.Table]:
    """Adds totals by month if the test names none."""
    found = {}
    for name, table in TABLES.items():
        names = table.schema.names
        rows = [{column: row.get(column) for column in names} for row in tables.get(name, ())]
        found[name] = pa.Table.from_pylist(rows, table.schema)
    return {name: rows for name, rows in with_months(found).items() if len(rows)}


def latency(*values: int) -> dict[str, Any]:
    """The columns that add up, for deliveries that took so long, all in the bucket of the first."""
    return {
        "latency_min": min(values),
        "latency_max": max(values),
        "latency_count": len(values),
        "latency_sum": sum(values),
        "latency_squares": float(sum(value * value for value in values)),
        "latency_buckets": [(values[0].bit_length() * 8 - 8, len(values))],
    }
