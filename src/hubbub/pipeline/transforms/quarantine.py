"""Rejected records with the reason, for investigation."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from hubbub.pipeline.catalogue import TABLES

_SHAPE = TABLES["quarantine"].schema


def unfit_records(events: pa.Table, reasons: pa.Array, hour: str) -> pa.Table:
    """`record` is the event as JSON, without its payload; `hour` is the hour in which the segment
    was first seen."""
    return pa.table(
        {
            **{name: events[name] for name in ("segment", "offset", "kind", "hub")},
            "reason": reasons,
            "detail": pa.nulls(len(events), pa.string()),
            "record": pa.array([_said(row) for row in events.to_pylist()], pa.string()),
            "hour": pa.repeat(hour, len(events)),
        }
    ).select(_SHAPE.names)


def refused_segments(refused: Iterable[tuple[str, str, str, str]]) -> pa.Table:
    """One row per rejected segment: name, code, sentence, hour."""
    rows = [
        {"segment": name, "reason": word, "detail": sentence, "hour": hour}
        for name, word, sentence, hour in refused
    ]
    return pa.Table.from_pylist(rows, _SHAPE)


def _said(row: dict[str, Any]) -> str:
    shown = {
        name: dict(value) if isinstance(value, list) else value
        for name, value in row.items()
        if value is not None and name not in ("payload", "segment")
    }
    return json.dumps(shown, ensure_ascii=False)
