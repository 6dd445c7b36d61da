"""Gold tables written by hand, without Spark, as a run would have committed them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hubbub.pipeline import state as states
from hubbub.pipeline.state import State
from hubbub.pipeline.warehouse import Warehouse

COMMITTED_AT = 1_793_620_800.0
_TIME = pa.timestamp("us", tz="UTC")
_BUCKETS = pa.map_(pa.int32(), pa.int64())


def write_warehouse(
    folder: Path, tables: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]
) -> None:
    """`tables` holds rows by table and partition; `""` is the partition of one that has none."""
    warehouse = Warehouse(folder)
    state = State(round=1, committed_at=int(COMMITTED_AT * 1e6))
    for name, partitions in tables.items():
        state.tables[name] = {}
        for partition, rows in partitions.items():
            state.tables[name][partition] = ["part-0.parquet"]
            warehouse.state = state
            (path,) = warehouse.files(name, [partition])
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(_table(rows), path)
    warehouse.state_folder.mkdir(parents=True, exist_ok=True)
    states.store(warehouse.state_folder / "state.json", state)


def _table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    names = list(rows[0])
    columns = []
    for name in names:
        values = [row[name] for row in rows]
        kind = None
        if name.endswith("_buckets"):
            kind = _BUCKETS
        elif any(isinstance(value, datetime) for value in values):
            kind = _TIME
        columns.append(pa.array(values, kind))
    return pa.table(columns, names)


def durations(prefix: str, *values: int) -> dict[str, Any]:
    """The columns of durations for these, all in the bucket of the first."""
    if not values:
        return {
            f"{prefix}_{name}": None
            for name in ("min", "mean", "stddev", "p50", "p90", "p99", "max", "sum", "squares")
        } | {f"{prefix}_count": 0, f"{prefix}_buckets": []}
    mean = sum(values) / len(values)
    return {
        f"{prefix}_min": min(values),
        f"{prefix}_mean": mean,
        f"{prefix}_stddev": 0.0,
        f"{prefix}_p50": float(values[0]),
        f"{prefix}_p90": float(values[0]),
        f"{prefix}_p99": float(values[0]),
        f"{prefix}_max": max(values),
        f"{prefix}_count": len(values),
        f"{prefix}_sum": sum(values),
        f"{prefix}_squares": float(sum(value * value for value in values)),
        f"{prefix}_buckets": [(values[0].bit_length() * 8 - 8, len(values))],
    }
