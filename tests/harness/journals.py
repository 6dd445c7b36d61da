"""Journals for tests: segments with given events, and all that counts in a folder."""

from __future__ import annotations

from pathlib import Path

from hubbub.domain.journal import PUBLISHED, JournalEvent
from hubbub.journal.folder import JournalFolder, new_name
from hubbub.journal.parquet import read_sealed, write_events

HOUR = 3_600_000_000
NOON = 1_763_208_000_000_000
"""2025-11-15, 12:00 UTC."""


def seal(journal: Path, *events: JournalEvent, node: str = "n1") -> str:
    """A sealed segment with these events; answers its file name."""
    folder = JournalFolder(journal)
    folder.make()
    name = f"{new_name(node, events[0].at / 1e6 if events else 0)}.parquet"
    write_events(folder.sealed / name, events)
    return name


def message(number: int, user: str = "ann", channel: str = "chat", **more: object) -> JournalEvent:
    at = NOON + number * 1_000_000
    values: dict[str, object] = {
        "node": "n1",
        "channel": channel,
        "user": user,
        "message_id": f"m{number}",
        "serial": number,
        "stored": True,
        "content_type": "text/plain",
        "payload": f"text {number}".encode(),
        "size": len(f"text {number}"),
        "published_at": at,
        **more,
    }
    return JournalEvent(PUBLISHED, at, "demo", **values)  # type: ignore[arg-type]


def counted(journal: Path) -> list[JournalEvent]:
    """The events of all segments that count, in the order of their times."""
    paths = JournalFolder(journal).sealed_segments()
    events = [event for path in paths for event in read_sealed(path)]
    return sorted(events, key=lambda event: (event.at, event.message_id or ""))
