"""Small silver tables written by hand, and the answers that follow from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from hubbub.domain.journal import JournalEvent
from hubbub.pipeline.catalogue import SCRATCH, TABLES
from hubbub.pipeline.columns import peer_of
from hubbub.pipeline.models import MODELS, Model
from hubbub.pipeline.models.evaluating import connected
from hubbub.pipeline.transforms import facts
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
    """All tables that models read; what is not said of a row is null or the usual."""
    assert set(tables) <= set(_DEFAULTS)
    known = {name: _table(name, tables.get(name, ())) for name in TABLES if name not in MODELS}
    terms = facts.term_facts(known["messages"])
    shape = TABLES["term_facts"].schema
    whole = terms.append_column("segment", pa.repeat("one", len(terms)))
    return {**known, "term_facts": whole.select(shape.names).cast(shape)}


def with_answers(known: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Adds the tables of models that are not given."""
    found = dict(known)
    with connected() as connection:
        for name, rows_ in found.items():
            connection.register(name, rows_)
        for model in MODELS.values():
            if model.name not in found:
                found[model.name] = evaluated(connection, model)
                connection.register(model.name, found[model.name])
    return found


def evaluated(connection: Any, model: Model) -> pa.Table:
    """The rows of a model, whose sources the connection knows."""
    rows_: pa.Table = connection.sql(model.text).to_arrow_table()
    assert set(rows_.column_names) == set(model.schema.names)
    return rows_.select(model.schema.names).cast(model.schema)


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
    return {**known, "linked_messages": threaded(pa.Table.from_pylist(links, shape))}


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
    """The rows of a model or a view, and before it those that it is made from."""
    if name in VIEWS:
        known = {each: view(each, sources) for each in VIEWS[name].sources}
        return VIEWS[name].evaluate(known)
    if name in sources:
        return sources[name]
    with connected() as connection:
        for each in MODELS[name].reads:
            connection.register(each, view(each, sources))
        return evaluated(connection, MODELS[name])


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
