"""Tables written by hand, without Spark, as a round would have committed them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from harness.views import with_answers
from hubbub.pipeline.catalogue import TABLES
from hubbub.pipeline.models import MODELS, fingerprints
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
        found = {"versions": versions(warehouse), "models": fingerprints()}
        rounds.finish(finished=micros, latest=micros, **found)


def _whole(tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, pa.Table]:
    """Adds the answers that the test does not give. A row with `times` stands for so many."""
    assert set(tables) <= set(TABLES)
    found = {}
    for name, table in TABLES.items():
        if name in tables or name not in MODELS:
            given, names = tables.get(name, ()), table.schema.names
            rows = [{column: row.get(column) for column in names} for row in given]
            places = np.repeat(np.arange(len(rows)), [row.get("times", 1) for row in given])
            found[name] = pa.Table.from_pylist(rows, table.schema).take(places)
    whole = with_answers(found)
    return {name: whole[name] for name in TABLES if len(whole[name])}


def latency(*values: int) -> dict[str, Any]:
    """The columns of a delivery about deliveries that took so long, all in the bucket of the
    first."""
    return {
        "latency_min": min(values),
        "latency_max": max(values),
        "latency_sum": sum(values),
        "latency_squares": float(sum(value * value for value in values)),
        "latency_buckets": [(values[0].bit_length() * 8 - 8, len(values))],
    }
