"""Converts files to messages."""

from __future__ import annotations

import hashlib
import json
from fnmatch import fnmatchcase
from typing import Annotated

import msgspec
from msgspec import Meta

from hubbub.domain.communication.contents import FILE, text_or_bytes
from hubbub.domain.communication.messages import FieldText, NeededText, PeerMessage
from hubbub.domain.communication.wire import from_wire
from hubbub.domain.errors import BadRequest
from hubbub.domain.rules import Setting

_UNFINISHED = (".tmp", ".part", ".partial", ".crdownload", "~")
"""Suffixes that programs use for files that they are still writing."""


class FileSettings(Setting, frozen=True, kw_only=True):
    """Which files of a folder become messages, and the fields of these messages."""

    pattern: Annotated[str, Meta(min_length=1, max_length=100)] = "*"
    """Names of files, with the wildcards `*` and `?`."""
    type: NeededText = "FILE"
    subtype: NeededText = "NEW"
    receiver: FieldText = ""
    max_bytes: Annotated[int, Meta(ge=1, le=50_000_000)] = 1_000_000
    stable_seconds: Annotated[float, Meta(ge=0, le=3600)] = 2.0
    """A file is read once its size and modification time have been stable for this long."""


class FileState(msgspec.Struct, frozen=True):
    """`modified` sorts files by time, and may contain more, so that a different file has a
    different state."""

    size: int
    modified: str


class TakenFile(msgspec.Struct, frozen=True):
    """The receipt of a file: what was read, and the message that it became."""

    name: str
    state: FileState
    id: str

    @property
    def mark(self) -> str:
        """Distinguishes files with the same name."""
        return "".join(each for each in self.id if each.isalnum() or each in "-_")[-32:]


class Sightings:
    """Tracks which files are stable and can be read. Only files seen in the last scan are kept. A
    refused file stays in the folder and is skipped until it changes."""

    def __init__(self, stable_seconds: float, max_bytes: int) -> None:
        self._stable_seconds = stable_seconds
        self._max_bytes = max_bytes
        self._seen: dict[str, tuple[FileState, float]] = {}
        self._refused: dict[str, FileState] = {}
        self._untold: dict[str, str] = {}

    def refuse(self, name: str, state: FileState, reason: str) -> None:
        self._refused[name] = state
        self._untold[name] = f"{name!r} is left where it is: {reason}"

    def leave(self, file: TakenFile) -> None:
        """Like `refuse`, for a file whose refusal is reported elsewhere."""
        self._refused[file.name] = file.state

    def untold(self) -> list[str]:
        """Files refused since the last call, and the reasons."""
        told, self._untold = self._untold, {}
        return list(told.values())

    def pending_seconds(self, now: float) -> float:
        """Seconds until a file of the last scan will have been stable for long enough; 0: none is
        waited for. `now` is in monotonic seconds."""
        left = [
            self._stable_seconds - (now - since)
            for name, (_, since) in self._seen.items()
            if name not in self._refused
        ]
        return min((each for each in left if each > 0), default=0.0)

    def stable(self, files: dict[str, FileState], now: float) -> list[str]:
        """Names of stable files, oldest change first. `now` is in monotonic seconds."""
        self._refused = {
            name: state for name, state in self._refused.items() if files.get(name) == state
        }
        self._untold = {name: text for name, text in self._untold.items() if name in files}
        seen = {}
        for name, state in files.items():
            before = self._seen.get(name)
            known = before is not None and before[0] == state
            seen[name] = before if known and before is not None else (state, now)
        self._seen = seen
        old = [name for name, (_, since) in seen.items() if now - since >= self._stable_seconds]
        for name in old:
            if files[name].size > self._max_bytes and name not in self._refused:
                reason = f"it has {files[name].size} bytes; at most {self._max_bytes} are taken"
                self.refuse(name, files[name], f"{reason} (maxBytes)")
        ready = [name for name in old if name not in self._refused]
        return sorted(ready, key=lambda name: (files[name].modified, name))


def is_wanted(name: str, settings: FileSettings) -> bool:
    hidden = name.startswith(".") or name.lower().endswith(_UNFINISHED)
    return not hidden and fnmatchcase(name, settings.pattern)


def file_message(adapter: str, name: str, data: bytes, settings: FileSettings) -> PeerMessage:
    """A JSON message is read as it is; any other file becomes the content: text if it is UTF-8,
    else bytes. The id is derived from name and content."""
    found = _written_message(name, data)
    content = hashlib.sha256(data).hexdigest()
    place = hashlib.sha256(json.dumps([adapter, name, content]).encode()).hexdigest()[:32]
    if found is None:
        found = PeerMessage(
            type=settings.type,
            subtype=settings.subtype,
            receiver=settings.receiver,
            content=text_or_bytes(data),
            headers={FILE: "".join(each if each.isprintable() else "?" for each in name)[:255]},
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
