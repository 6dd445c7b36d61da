"""Hand-made journal segments, and a warehouse that takes them in."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hubbub.domain import journal as kinds
from hubbub.domain.journal import JournalEvent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hubbub.pipeline.jobs.rounds import RoundReport
    from hubbub.pipeline.tables.snapshot import Snapshot

HOUR = 3_600_000_000
NOON = 1_794_744_000_000_000
"""2026-11-15T12:00 UTC."""
NOW = NOON + 12 * HOUR


def write_segment(journal: Path, name: str, events: Iterable[JournalEvent]) -> Path:
    """A sealed segment with these events."""
    from hubbub.journal.parquet import write_events

    path = journal / "sealed" / f"{name}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_events(path, events)
    return path


def replace_segments(journal: Path, number: int, replaced: list[str], by: list[str]) -> None:
    """Says in the manifest that segments took the place of others."""
    folder = journal / "manifest"
    folder.mkdir(parents=True, exist_ok=True)
    entry = {
        "at": NOW,
        "reason": "compaction",
        "replaced": [f"{name}.parquet" for name in replaced],
        "by": [f"{name}.parquet" for name in by],
    }
    draft = folder / f".{number:08d}.draft"
    draft.write_text(json.dumps(entry))
    draft.rename(folder / f"{number:08d}.json")


def published(number: int, at: int = NOON, **fields: Any) -> JournalEvent:
    given: dict[str, Any] = {
        "node": "n1",
        "channel": "news",
        "session": "s1",
        "user": "ann",
        "technology": "websocket",
        "message_id": f"m{number}",
        "epoch": "e",
        "serial": number,
        "stored": True,
        "content_type": "text/plain",
        "size": 5,
        "payload": b"hello",
        "published_at": at,
    }
    return JournalEvent(kinds.PUBLISHED, at, "demo", **{**given, **fields})


def delivered(serial: int, at: int = NOON, count: int = 3, **fields: Any) -> JournalEvent:
    given: dict[str, Any] = {
        "node": "n1",
        "channel": "news",
        "technology": "websocket",
        "epoch": "e",
        "first_serial": serial,
        "serial": serial,
        "messages": 1,
        "count": count,
        "size": 5 * count,
        "latency_min": 100,
        "latency_max": 300,
        "latency_sum": 200 * count,
        "latency_squares": 40_000.0 * count,
        "latency_buckets": {61: count},
    }
    return JournalEvent(kinds.DELIVERED, at, "demo", **{**given, **fields})


def session_opened(session: str, at: int = NOON, **fields: Any) -> JournalEvent:
    given: dict[str, Any] = {"node": "n1", "user": "ann", "technology": "websocket"}
    return JournalEvent(kinds.SESSION_OPENED, at, "demo", session=session, **{**given, **fields})


def node_started(at: int, node: str = "n1") -> JournalEvent:
    return JournalEvent(kinds.NODE_STARTED, at, "", node)


def session_closed(session: str, at: int, **fields: Any) -> JournalEvent:
    given: dict[str, Any] = {"node": "n1", "reason": "bye"}
    return JournalEvent(kinds.SESSION_CLOSED, at, "demo", session=session, **{**given, **fields})


def subscribed(session: str, at: int = NOON, channel: str = "news", **fields: Any) -> JournalEvent:
    return JournalEvent(
        kinds.SUBSCRIBED, at, "demo", "n1", session=session, channel=channel, user="ann", **fields
    )


def unsubscribed(session: str, at: int, channel: str = "news", **fields: Any) -> JournalEvent:
    return JournalEvent(
        kinds.UNSUBSCRIBED, at, "demo", "n1", session=session, channel=channel, **fields
    )


class Pipeline:
    """A journal and a warehouse in one folder, with rounds at a time that the test decides."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        from hubbub.pipeline.tables.location import Location

        self.spark = spark
        self.journal = folder / "journal"
        self.warehouse = Location(folder / "warehouse")
        self.now = NOW

    def write(self, name: str, *events: JournalEvent) -> Path:
        return write_segment(self.journal, name, events)

    def run(self, full: bool = False) -> RoundReport:
        from hubbub.pipeline.jobs.rounds import run_round
        from hubbub.pipeline.tables.location import Location

        return run_round(
            self.warehouse,
            Location(self.journal),
            lambda: self.spark,
            full=full,
            now=lambda: self.now,
        )

    @property
    def snapshot(self) -> Snapshot:
        from hubbub.pipeline.tables.snapshot import open_snapshot

        return open_snapshot(self.warehouse)

    def rows(self, table: str) -> list[dict[str, Any]]:
        """All rows of a table or view, in an order that depends on nothing but the rows."""
        found = self.snapshot.read(table).to_pylist()
        return sorted((plain(row) for row in found), key=repr)

    def everything(self) -> dict[str, list[dict[str, Any]]]:
        """All tables and views. Where a round began and which files it wrote is not in them."""
        return {name: self.rows(name) for name in self.snapshot.names if name != "segments"}


def plain(value: Any) -> Any:
    """Sums of reals depend a little on their order, and entries of maps have none."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return sorted((plain(each) for each in value), key=repr)
    return float(f"{value:.12g}") if isinstance(value, float) else value
