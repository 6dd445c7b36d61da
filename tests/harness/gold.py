"""Small silver tables written by hand, and the gold tables that follow from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from hubbub.pipeline.gold import TABLES
from hubbub.pipeline.schemas import SILVER

Row = Mapping[str, Any]

MONDAY = datetime(2026, 11, 2, tzinfo=UTC)
BY_NAME = {table.name: table for table in TABLES}
_BEGINNINGS = ("at", "opened_at", "started_at")
_DEFAULTS: dict[str, dict[str, Any]] = {
    "messages": {"hub": "acme", "channel": "news", "size": 100},
    "deliveries": {"hub": "acme", "channel": "news", "technology": "websocket"},
    "sessions": {"hub": "acme"},
    "subscriptions": {"hub": "acme", "channel": "news"},
    "receipts": {"hub": "acme", "channel": "news", "epoch": "e", "subscription": "s"},
    "attempts": {"hub": "acme", "kind": "adapter.attempt", "outcome": "ok"},
    "drops": {"hub": "acme", "channel": "news", "kind": "message.dropped"},
}


def clock(text: str, days: int = 0) -> datetime:
    """A time of the Monday on which everything happens, or of a day after it."""
    parts = [float(part) for part in text.split(":")]
    hours, minutes, seconds = (*parts, 0.0, 0.0)[:3]
    return MONDAY + timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)


def silver(spark: SparkSession, **tables: Sequence[Row]) -> dict[str, DataFrame]:
    """All silver tables; what is not said of a row is null or the usual."""
    assert set(tables) <= set(SILVER)
    return {name: _frame(spark, name, tables.get(name, ())) for name in SILVER}


def _frame(spark: SparkSession, name: str, rows: Sequence[Row]) -> DataFrame:
    schema = SILVER[name]
    completed = []
    for place, row in enumerate(rows):
        assert set(row) <= set(schema.names), row
        whole = {"segment": "one", "offset": place, **_DEFAULTS[name], **row}
        begun = next(whole[each] for each in _BEGINNINGS if each in whole)
        whole["hour"] = f"{begun:%Y-%m-%dT%H}"
        if name == "messages":
            whole.setdefault("message_id", f"m{place}")
        completed.append(tuple(whole.get(field) for field in schema.names))
    return spark.createDataFrame(completed, schema)


def gold(name: str, sources: Mapping[str, DataFrame]) -> DataFrame:
    """The table, and before it those that it is made from."""
    known = dict(sources)
    for each in BY_NAME[name].sources:
        if each not in known:
            known[each] = gold(each, sources).localCheckpoint()
    return BY_NAME[name].transform({each: known[each] for each in BY_NAME[name].sources})


def rows(frame: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """The rows in the order of their first columns. Times are in UTC."""
    shown = frame.select(*columns) if columns else frame
    found = [tuple(_plain(value) for value in row) for row in shown.toLocalIterator()]
    return sorted(found, key=lambda row: [(value is not None, str(value)) for value in row])


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    return round(value, 3) if isinstance(value, float) else value
