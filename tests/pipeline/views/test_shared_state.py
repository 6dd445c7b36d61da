"""Documents, notifications and pushes, from events as the journal has them."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pytest

from harness.segments import HOUR
from harness.views import MONDAY, rows, silver, view
from hubbub.domain import journal
from hubbub.domain.documents.journal import DOCUMENT_CHANGED
from hubbub.domain.journal import JournalEvent
from hubbub.pipeline.catalogue import TABLES
from hubbub.pipeline.transforms import facts
from hubbub.pipeline.transforms.events import EVENTS

MONDAY_NOON = int(MONDAY.timestamp() * 1e6) + 12 * HOUR
FACTS = ("document_facts", "notification_facts", "push_facts")


def shown(name: str, *events: JournalEvent) -> pa.Table:
    """The view, of facts that each event makes in a segment of its own."""
    sources = silver()
    for each in FACTS:
        shape = TABLES[each].schema
        parts = [getattr(facts, each)(_table(event)) for event in events]
        found = [
            part.append_column("segment", pa.repeat(f"s{place}", len(part)))
            for place, part in enumerate(parts)
        ]
        sources[each] = pa.concat_tables(
            [part.select(shape.names).cast(shape) for part in found] or [shape.empty_table()]
        )
    return view(name, sources)


def _table(event: JournalEvent) -> pa.Table:
    row = msgspec.structs.asdict(event)
    maps = {name: list(each.items()) for name, each in row.items() if isinstance(each, dict)}
    return pa.Table.from_pylist([{"schema_version": 1, "offset": 0, **row, **maps}], EVENTS)


def event(kind: str, hours: float = 0, **fields: Any) -> JournalEvent:
    return JournalEvent(kind, MONDAY_NOON + int(hours * HOUR), "acme", **fields)


@pytest.mark.spec("DOC-01")
def test_documents_by_activity_and_size() -> None:
    """In the journal and the tables: who changed what, how often, and how large it is now."""

    def change(hours: float, version: int, size: str, **more: Any) -> JournalEvent:
        more = {"channel": "todo", "user": "ann", "size": 10, **more}
        return event(DOCUMENT_CHANGED, hours, serial=version, extra={"documentBytes": size}, **more)

    found = shown(
        "documents",
        change(2, 3, "300", user="bob"),  # a later segment may come first
        change(0, 1, "100"),
        change(1, 2, "250"),
        change(13, 4, "20"),
        change(0, 1, "no number", channel="odd"),
    )
    columns = ("channel", "day", "changes", "authors", "bytes", "version", "document_bytes")
    assert rows(found, *columns) == [
        ("odd", "2026-11-02", 1, 1, 10, 1, None),
        ("todo", "2026-11-02", 3, 2, 30, 3, 300),
        ("todo", "2026-11-03", 1, 1, 10, 4, 20),
    ]


@pytest.mark.spec("NOTE-01")
def test_notifications_count_on_the_day_on_which_they_were_created() -> None:
    """Created, read and the time to read, in the journal and the tables."""

    def of(kind: str, created: float, hours: float, **more: Any) -> JournalEvent:
        made = MONDAY_NOON + int(created * HOUR)
        return event(kind, hours, message_id=f"n{created}", published_at=made, **more)

    found = shown(
        "notifications",
        of(journal.NOTIFICATION_CREATED, 0, 0),
        of(journal.NOTIFICATION_CREATED, 1, 1),
        of(journal.NOTIFICATION_CREATED, 24, 24),
        of(journal.NOTIFICATION_READ, 0, 30, duration=30 * HOUR),
    )
    columns = ("hub", "day", "created", "unread", "read_count", "read_min", "read_mean")
    assert rows(found, *columns) == [
        ("acme", "2026-11-02", 2, 1, 1, 30 * HOUR, 30.0 * HOUR),
        ("acme", "2026-11-03", 1, 1, 0, None, None),
    ]


@pytest.mark.spec("PUSH-01")
def test_pushes_by_platform_and_outcome() -> None:
    """Attempts with outcome and duration, in the journal and the tables."""

    def push(outcome: str, platform: str = "webpush", **more: Any) -> JournalEvent:
        return event(
            journal.PUSH_ATTEMPT, technology=platform, outcome=outcome, duration=1000, **more
        )

    found = shown("pushes", push("ok"), push("ok"), push("retry"), push("gone"), push("ok", "fcm"))
    columns = ("platform", "attempts", "ok", "retry", "gone", "refused", "success", "duration_mean")
    assert rows(found, *columns) == [
        ("fcm", 1, 1, 0, 0, 0, 1.0, 1000),
        ("webpush", 4, 2, 1, 1, 0, 0.5, 1000),
    ]
