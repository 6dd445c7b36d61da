"""The message that a file becomes."""

from __future__ import annotations

import hashlib
import json
from fnmatch import fnmatchcase
from typing import Annotated

import msgspec
from msgspec import Meta

from hubbub.domain.communication.messages import FieldText, NeededText, PeerMessage
from hubbub.domain.communication.wire import from_wire
from hubbub.domain.errors import BadRequest
from hubbub.domain.rules import Setting

_UNFINISHED = (".tmp", ".part", ".partial", ".crdownload", "~")
"""How programs end the names of files that they are still writing."""


class FileSettings(Setting, frozen=True, kw_only=True):
    """Which files of a folder become messages, and what these say besides the text."""

    pattern: Annotated[str, Meta(min_length=1, max_length=100)] = "*"
    """Names of files, with `*` and `?`."""
    type: NeededText = "FILE"
    subtype: NeededText = "NEW"
    receiver: FieldText = ""
    max_bytes: Annotated[int, Meta(ge=1, le=50_000_000)] = 1_000_000
    stable_seconds: Annotated[float, Meta(ge=0, le=3600)] = 2.0
    """A file is read once its size and time have not changed for so long."""


class FileState(msgspec.Struct, frozen=True):
    size: int
    modified: str


class Sightings:
    """Which files have stopped changing. Only files that were there at the last look are kept."""

    def __init__(self, stable_seconds: float) -> None:
        self._stable_seconds = stable_seconds
        self._seen: dict[str, tuple[FileState, float]] = {}

    def stable(self, files: dict[str, FileState], now: float) -> list[str]:
        """Names of files that may be read, those that changed first in front. `now` is in seconds
        that never run backwards."""
        seen = {}
        for name, state in files.items():
            before = self._seen.get(name)
            known = before is not None and before[0] == state
            seen[name] = before if known and before is not None else (state, now)
        self._seen = seen
        ready = [name for name, (_, since) in seen.items() if now - since >= self._stable_seconds]
        return sorted(ready, key=lambda name: (files[name].modified, name))


def is_wanted(name: str, settings: FileSettings) -> bool:
    hidden = name.startswith(".") or name.lower().endswith(_UNFINISHED)
    return not hidden and fnmatchcase(name, settings.pattern)


def file_message(adapter: str, name: str, data: bytes, settings: FileSettings) -> PeerMessage:
    """A message in JSON as it is; of any other file its text. The id is the same for the same name
    and content."""
    found = _written_message(name, data)
    content = hashlib.sha256(data).hexdigest()
    place = hashlib.sha256(json.dumps([adapter, name, content]).encode()).hexdigest()[:32]
    if found is None:
        found = PeerMessage(
            type=settings.type,
            subtype=settings.subtype,
            receiver=settings.receiver,
            content=data.decode("utf-8-sig", "replace"),
            headers={"file": "".join(each if each.isprintable() else "?" for each in name)[:255]},
        )
    return msgspec.structs.replace(found, id=found.id or f"file:{place}")


def _written_message(name: str, data: bytes) -> PeerMessage | None:
    if not name.lower().endswith(".json"):
        return None
    try:
        found = from_wire(data, by_stranger=True)
    except BadRequest:
        return None
    return found if found.type and found.subtype else None
