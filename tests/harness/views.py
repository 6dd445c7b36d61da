"""Small silver tables written by hand, and the views that follow from them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow as pa

from hubbub.domain.journal import JournalEvent
from hubbub.pipeline.catalogue import SCRATCH, TABLES
from hubbub.pipeline.columns import peer_of
from hubbub.pipeline.transforms import facts, months
from hubbub.pipeline.transforms import silver as transforms
from hubbub.pipeline.transforms.threads import threaded
from hubbub.pipeline.views import VIEWS

Row = Mapping[str, Any]

MONDAY = datetime(2026, 11, 2, tzinfo=UTC)
_DEFAULTS: dict[str, dict[str, Any]] = {
    "messages": {"hub": "acme", "channel": "news", "size": 100},
    "deliveries": {"hub": "acme", "channel": "news", "technology": "websocket"},
    "sessions": {"hub": "acme"},
    "subscriptions": {"hub": "acme", "channel": "news"},
    "receipts": {"hub": "acme", "channel": "news", "epoch": "e", "subscription": "s"},
    "attempts": {"hub": "acme", "kind": "adapter.attempt", "outcome": "ok"},
    "verdicts": {"hub": "acme", "channel": "comm:log", "outcome": "met"},
    "drops": {"hub": "acme", "channel": "news", "kind": "message.dropped"},
}


def clock(text: str, days: int = 0) -> datetime:
    """A time of the Monday on which everything happens, or of a day after it."""
    parts = [float(part) for part in text.split(":")]
    hours, minutes, seconds = (*parts, 0.0, 0.0)[:3]
    return MONDAY + timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)


def silver(**tables: Sequence[Row]) -> dict[str, pa.Table]:
    """All materialised tables, with facts; what is not said of a row is null or the usual."""
    assert set(tables) <= set(_DEFAULTS)
    known = {name: _table(name, tables.get(name, ())) for name in TABLES}
    messages = known["messages"]
    found = {
        "publish_facts": facts.publish_facts(messages),
        "delivery_facts": facts.delivery_facts(
            known["deliveries"], known["attempts"], known["receipts"]
        ),
        "peer_facts": facts.peer_facts(messages, known["attempts"]),
        "term_facts": facts.term_facts(messages),
        "sequence_facts": facts.sequence_facts(messages, known["receipts"], known["drops"]),
    }
    for name, rows in found.items():
        whole = rows.append_column("segment", pa.repeat("one", len(rows)))
        known[name] = whole.select(TABLES[name].schema.names).cast(TABLES[name].schema)
    return with_months(known)


def with_months(known: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Adds totals by month, whose parts DuckDB computes here, and Spark in a round."""
    found = dict(known)
    for totals in months.TOTALS:
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            parts = [_part(connection, part, known[part.table]) for part in totals.parts]
        every = pa.concat_tables([totals.shape.empty_table(), *parts], promote_options="permissive")
        rows = totals.compute(every.select(totals.shape.names).cast(totals.shape))
        shape = TABLES[totals.table].schema
        found[totals.table] = rows.select(shape.names).cast(shape)
    return found


def _part(connection: Any, part: months.MonthSource, rows: pa.Table) -> pa.Table:
    connection.register("rows", rows)
    month = f"date_trunc('MONTH', {part.time}) AS month"
    sql = f"SELECT {month}, {part.columns} FROM rows WHERE {part.where}"
    # Words of DuckDB's own, and not of Spark's.
    quoted = re.sub(r"\b(at|user)\b", r'"\1"', sql)
    return connection.sql(quoted).to_arrow_table()


def talks(**tables: Sequence[Row]) -> dict[str, pa.Table]:
    """The same with threads. Messages that another one refers to are among the links, as the job of
    a round adds them."""
    known = silver(**tables)
    messages = known["messages"].to_pylist()
    asked = {(row["hub"], row["refers_to"]) for row in messages}
    linked = {row["message_id"] for row in transforms.links(known["messages"]).to_pylist()}
    shape = SCRATCH["_links"].schema
    links = [
        {name: {**row, "peer": peer}[name] for name in shape.names}
        for row, peer in zip(messages, peer_of(known["messages"]).to_pylist(), strict=True)
        if row["message_id"] in linked or (row["hub"], row["message_id"]) in asked
    ]
    return with_months({**known, "linked_messages": threaded(pa.Table.from_pylist(links, shape))})


def tables_of(events: Iterable[JournalEvent]) -> dict[str, list[Row]]:
    """Rows of silver tables, from events of a journal."""
    found: dict[str, list[Row]] = {"messages": [], "attempts": [], "verdicts": []}
    for name, rows_ in found.items():
        columns = [each for each in TABLES[name].schema.names if hasattr(JournalEvent, each)]
        rows_ += [
            {column: getattr(event, column) for column in columns if column != "headers"}
            for event in events
            if event.kind in transforms.KINDS[name]
        ]
    return found


def _table(name: str, rows: Sequence[Row]) -> pa.Table:
    schema = TABLES[name].schema
    completed = []
    for place, row in enumerate(rows):
        assert set(row) <= set(schema.names), row
        whole = {"segment": "one", "offset": place, **_DEFAULTS[name], **row}
        if name == "messages":
            whole.setdefault("message_id", f"m{place}")
        completed.append({field: _entries(whole.get(field)) for field in schema.names})
    return pa.Table.from_pylist(completed, schema)


def _entries(value: Any) -> Any:
    return list(value.items()) if isinstance(value, dict) else value


def view(name: str, sources: Mapping[str, pa.Table]) -> pa.Table:
    """The view, and before it those that it is made from."""
    known = dict(sources)
    for each in VIEWS[name].sources:
        if each not in known:
            known[each] = view(each, sources)
    return VIEWS[name].evaluate(known)


def rows(table: pa.Table, *columns: str) -> list[tuple[Any, ...]]:
    """The rows in the order of their first columns. Times are in UTC."""
    shown = table.select(list(columns)) if columns else table
    found = [tuple(_plain(value) for value in row.values()) for row in shown.to_pylist()]
    return sorted(found, key=lambda row: [(value is not None, str(value)) for value in row])


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    return round(value, 3) if isinstance(value, float) else value


def records(table: pa.Table, **wanted: Any) -> list[Any]:
    """The rows that have these values, with a field for each column."""
    return [
        SimpleNamespace(**row)
        for row in table.to_pylist()
        if all(row[name] == value for name, value in wanted.items())
    ]
