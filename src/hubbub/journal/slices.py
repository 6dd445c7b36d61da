"""A slice of the journal: the messages of one channel between two times, in order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow.compute as pc

from hubbub.domain.envelope import NUMBERS, TEXTS
from hubbub.domain.journal import PUBLISHED, WHOLE_HEADERS
from hubbub.domain.messages import BINARY, Attributes
from hubbub.journal.folder import JournalFolder
from hubbub.journal.sealed import find

_ENVELOPE: Final = tuple(name for name in (*TEXTS, *NUMBERS) if name != "delivery_policy")
"""Columns that equal fields of a message's attributes."""
_COLUMNS: Final = (
    "at",
    "published_at",
    "serial",
    "message_id",
    "event",
    "content_type",
    "payload",
    "size",
    "stored",
    *_ENVELOPE,
    "location",
    "headers",
    "policy",
    "extra",
)


class Recorded(msgspec.Struct, frozen=True):
    """A message in the journal. `payload` is None if the rules excluded it."""

    id: str
    published_at: int
    event: str
    content_type: str
    payload: bytes | None
    size: int
    stored: bool
    attributes: Attributes | None = None


class JournalSlice(msgspec.Struct, frozen=True, kw_only=True):
    """Selects messages; times are microseconds since 1970, from inclusive to exclusive."""

    hub: str
    channel: str
    since: int | None = None
    until: int | None = None


def read_slice(journal: Path, wanted: JournalSlice) -> list[Recorded]:
    """The messages without duplicates, oldest first. Reads sealed segments only."""
    condition = (
        (pc.field("kind") == PUBLISHED)
        & (pc.field("hub") == wanted.hub)
        & (pc.field("channel") == wanted.channel)
    )
    if wanted.since is not None:
        condition &= pc.field("at") >= wanted.since
    if wanted.until is not None:
        condition &= pc.field("at") < wanted.until
    found = find(JournalFolder(journal).sealed_segments(), _COLUMNS, condition)
    ordered = found.sort_by([("at", "ascending"), ("serial", "ascending")])
    return list(_once(ordered.to_pylist()))


def channels_of(journal: Path, hub: str) -> list[str]:
    """The channels with recorded messages."""
    condition = (pc.field("kind") == PUBLISHED) & (pc.field("hub") == hub)
    found = find(JournalFolder(journal).sealed_segments(), ("channel",), condition)
    return sorted(name for name in found["channel"].unique().to_pylist() if name is not None)


def _once(rows: list[dict[str, Any]]) -> Iterator[Recorded]:
    seen = set()
    for row in rows:
        if row["message_id"] is None or row["message_id"] in seen:
            continue
        seen.add(row["message_id"])
        yield msgspec.convert(
            {
                "id": row["message_id"],
                "published_at": row["published_at"] if row["published_at"] else row["at"],
                "event": row["event"] or "",
                "content_type": row["content_type"] or BINARY,
                "payload": row["payload"],
                "size": row["size"] or 0,
                "stored": row["stored"] is True,
                "attributes": _attributes(row),
            },
            Recorded,
        )


def _attributes(row: dict[str, Any]) -> dict[str, Any] | None:
    given = {name: row[name] for name in _ENVELOPE}
    given["delivery_policy"] = row["policy"]
    given["location"] = None if row["location"] is None else msgspec.json.decode(row["location"])
    whole = dict(row["extra"] or ()).get(WHOLE_HEADERS)
    if whole is not None:
        given["headers"] = msgspec.json.decode(whole)
    elif row["headers"] is not None:
        given["headers"] = dict(row["headers"])
    found = {name: value for name, value in given.items() if value is not None}
    return found or None
