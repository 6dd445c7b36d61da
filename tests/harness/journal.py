"""Reading what a hub has put into its journal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec

from hubbub.domain.journal import PUBLISHED, JournalEvent
from hubbub.journal.folder import JournalFolder
from hubbub.journal.records import NotASegment, read_events

QUIET = {"journal__seal": False, "journal__minFreeBytes": 0}
"""Overrides of a test's settings: raw segments stay, and any disk will do."""


def journal_events(path: Path, *kinds: str) -> list[JournalEvent]:
    """All events of raw segments, open or closed, in the order of the segments' names."""
    folder = JournalFolder(path)
    found: list[JournalEvent] = []
    paths = [*folder.closed.glob("*.hbj"), *folder.open.glob("*.hbj")]
    for segment in sorted(paths, key=lambda each: each.name):
        try:
            found += read_events(segment)
        except (NotASegment, FileNotFoundError):
            continue  # just begun, or just moved
    return [event for event in found if not kinds or event.kind in kinds]


async def journalled(
    path: Path, condition: Callable[[list[JournalEvent]], object], within_seconds: float = 15.0
) -> list[JournalEvent]:
    """Wait until what is in the files makes the condition true."""
    async with asyncio.timeout(within_seconds):
        while not condition(found := journal_events(path)):
            await asyncio.sleep(0.05)
    return found


def stored_serials(path: Path) -> dict[str, dict[int, str]]:
    """The id of the stored message under each serial, by channel. Repeated entries must be
    equal."""
    found: dict[str, dict[int, str]] = {}
    for event in journal_events(path, PUBLISHED):
        if event.stored:
            assert event.channel
            assert event.serial
            assert event.message_id
            channel = found.setdefault(event.channel, {})
            assert channel.setdefault(event.serial, event.message_id) == event.message_id
    return found


def only(event: JournalEvent, *fields: str) -> dict[str, object]:
    """The given fields of an event."""
    return {name: msgspec.to_builtins(getattr(event, name)) for name in fields}
