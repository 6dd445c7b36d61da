"""Import: converts an external log of messages to sealed segments of the journal.

Unreadable records are written to a file of rejects with line and reason. A message keeps the id
from the log, or gets one derived from its content and the number of earlier messages with the same
content; so importing a log again, or a longer version of it, adds only new messages.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, tzinfo
from pathlib import Path
from typing import IO

import msgspec
import pyarrow.compute as pc
import pyarrow.dataset as ds

from hubbub.domain.errors import BadRequest, InvalidName
from hubbub.domain.journal import PUBLISHED, JournalEvent
from hubbub.domain.messages import TEXT
from hubbub.domain.names import check_name
from hubbub.files import sync
from hubbub.journal.folder import SEALED, JournalFolder, new_name
from hubbub.journal.foreign_rows import Columns, Format, Reject, Row, Scalar, read_rows
from hubbub.journal.foreign_text import AUTO, read_lines
from hubbub.journal.foreign_times import parse_time
from hubbub.journal.parquet import write_events
from hubbub.journal.upkeep import alone

NODE = "import"
SEGMENT_EVENTS = 250_000
MAX_TEXT_BYTES = 1024 * 1024
_DAY = 86_400_000_000
_TELL_EVERY = 1000
_FORMATS: dict[str, Format] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
}


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A log, and how to read it. `channel`: for messages without a channel."""

    path: Path
    hub: str
    format: Format | None = None
    columns: dict[str, str] = {}
    channel: str | None = None
    encoding: str = AUTO
    zone: tzinfo = UTC
    time_layout: str | None = None


class ImportSummary(msgspec.Struct):
    """The result of an import."""

    imported: int = 0
    known: int = 0
    """Messages that an earlier import already added."""
    repeated: int = 0
    """Repeats of a message under the same id."""
    rejected: int = 0
    not_utf8: int = 0
    """Messages with lines that are not UTF-8 and were decoded as Windows-1252 or Latin 1."""
    clock_back: int = 0
    """How often a message is older than the preceding one of its channel."""
    renamed: int = 0
    """Messages of channels whose leading `#` was removed, since names in the hub cannot have it."""
    channels: int = 0
    first: int | None = None
    last: int | None = None
    segments: list[str] = []
    rejects: str | None = None


class _Unreadable(Exception):
    """Why a row cannot become a message."""


def import_log(
    source: Source,
    journal: Path,
    rejects: Path,
    *,
    dry_run: bool = False,
    now: float | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> ImportSummary:
    """`progress` receives the share of the file that was read. Raises `BadRequest` if the file or
    an option is invalid, and `OSError`."""
    check_name(source.hub, "hub")
    if source.channel is not None:
        check_name(source.channel, "channel")
    kind = source.format or _FORMATS.get(source.path.suffix.lower())
    if kind is None:
        raise BadRequest(f"{source.path.name} does not tell its format; give it with --format")
    columns = Columns(source.columns, () if source.channel is None else ("channel",))
    folder = JournalFolder(journal)
    moment = time.time() if now is None else now
    with ExitStack() as opened:
        file = opened.enter_context(source.path.open("rb"))
        if not dry_run:
            folder.make()
            opened.enter_context(alone(journal))
        reader = _RowReader(source, _known_ids(folder, source.hub), rejects, dry_run, moment)
        rows = read_rows(read_lines(file, source.encoding), kind, columns)
        size = source.path.stat().st_size or 1
        events = _watched(reader.events(rows), lambda: progress(file.tell() / size))
        if dry_run:
            for _ in events:
                pass
        else:
            opened.callback(reader.close)
            _seal(folder, events, reader.summary, moment)
    progress(1.0)
    return reader.finish()


def _watched(events: Iterator[JournalEvent], tell: Callable[[], None]) -> Iterator[JournalEvent]:
    for number, event in enumerate(events):
        if number % _TELL_EVERY == 0:
            tell()
        yield event


def _seal(
    folder: JournalFolder, events: Iterator[JournalEvent], summary: ImportSummary, now: float
) -> None:
    while (first := next(events, None)) is not None:
        name = f"{new_name(NODE, now)}{SEALED}"
        draft = folder.path / f".{name}"
        try:
            write_events(draft, _some(first, events))
            draft.rename(folder.sealed / name)
        finally:
            draft.unlink(missing_ok=True)
        sync(folder.sealed)
        summary.segments.append(name)


def _some(first: JournalEvent, events: Iterator[JournalEvent]) -> Iterator[JournalEvent]:
    yield first
    for _ in range(SEGMENT_EVENTS - 1):
        event = next(events, None)
        if event is None:
            return
        yield event


def _known_ids(folder: JournalFolder, hub: str) -> set[str]:
    """Ids of messages from earlier imports."""
    paths = [path for path in folder.sealed_segments() if _may_hold_imports(path)]
    if not paths:
        return set()
    wanted = (pc.field("hub") == hub) & (pc.field("node") == NODE)
    found = ds.dataset(paths, format="parquet").to_table(["message_id"], filter=wanted)
    return set(found["message_id"].to_pylist())


def _may_hold_imports(path: Path) -> bool:
    return path.name.startswith((f"{NODE}-", "rewritten-"))


class _RowReader:
    """Converts rows to events and keeps the counters."""

    def __init__(
        self, source: Source, known: set[str], rejects: Path, dry_run: bool, now: float
    ) -> None:
        self.summary = ImportSummary()
        self._source = source
        self._known = known
        self._path = rejects
        self._rejects: IO[bytes] | None = None
        self._dry_run = dry_run
        self._latest = int(now * 1e6) + _DAY
        self._seen: dict[str, int] = {}
        self._times_said: dict[str, int] = {}
        self._last_at: dict[str, int] = {}

    def events(self, rows: Iterator[Row | Reject]) -> Iterator[JournalEvent]:
        for row in rows:
            if isinstance(row, Reject):
                self._put_aside(row)
                continue
            try:
                event = self._event(row)
            except _Unreadable as error:
                self._put_aside(Reject(row.line, str(error), row.raw))
                continue
            if event is not None:
                yield event

    def _event(self, row: Row) -> JournalEvent | None:
        channel = self._channel(row.values.get("channel"))
        at = self._time(row.values.get("time"))
        sender = _text(row.values.get("sender"))
        text = str(row.values.get("text") or "")
        payload = text.encode("utf-8", "replace")
        if len(payload) > MAX_TEXT_BYTES:
            raise _Unreadable(f"the text is over {MAX_TEXT_BYTES:,} bytes long")
        answers = _text(row.values.get("reply-to"))
        message_id = self._id(row, (channel, at, sender, text, answers))
        if message_id is None:
            return None
        self._count(row, channel, at)
        return JournalEvent(
            PUBLISHED,
            at,
            self._source.hub,
            NODE,
            channel,
            user=sender,
            technology=NODE,
            message_id=message_id,
            content_type=TEXT,
            size=len(payload),
            payload=payload,
            published_at=at,
            conversation_id=_text(row.values.get("conversation")),
            refers_to=answers,
            sender=sender,
            extra={"file": self._source.path.name, "line": str(row.line)},
        )

    def _channel(self, given: Scalar) -> str:
        name = _text(given) or self._source.channel
        if name is None:
            raise _Unreadable("there is no channel")
        try:
            return check_name(name.removeprefix("#"), "channel")
        except InvalidName as error:
            raise _Unreadable(error.message) from None

    def _time(self, given: Scalar) -> int:
        try:
            at = parse_time(
                "" if given is None else given, self._source.zone, self._source.time_layout
            )
        except ValueError as error:
            raise _Unreadable(str(error)) from None
        if at < 0:
            raise _Unreadable(f"the time {given!r} is before 1970")
        if at > self._latest:
            raise _Unreadable(f"the time {given!r} is in the future")
        return at

    def _id(self, row: Row, content: tuple[object, ...]) -> str | None:
        """Returns None if the message exists already. Raises `_Unreadable` if its id belongs to
        another message."""
        given = _text(row.values.get("id"))
        if given is None:
            message_id = self._made_id(content)
        else:
            message_id = given
            before = self._seen.get(given)
            if before == hash(content):
                self.summary.repeated += 1
                return None
            if before is not None:
                raise _Unreadable(f"the id {given[:60]!r} was used before, for another message")
            self._seen[given] = hash(content)
        if message_id in self._known:
            self.summary.known += 1
            return None
        return message_id

    def _made_id(self, content: tuple[object, ...]) -> str:
        base = hashlib.sha256(repr((self._source.hub, *content)).encode()).hexdigest()[:32]
        said = self._times_said.get(base, 0)
        self._times_said[base] = said + 1
        return f"{base}-{said}" if said else base

    def _count(self, row: Row, channel: str, at: int) -> None:
        summary = self.summary
        summary.imported += 1
        summary.not_utf8 += row.guessed
        summary.renamed += str(row.values.get("channel") or "").strip().startswith("#")
        summary.clock_back += at < self._last_at.get(channel, 0)
        self._last_at[channel] = at
        summary.first = at if summary.first is None else min(at, summary.first)
        summary.last = at if summary.last is None else max(at, summary.last)

    def _put_aside(self, reject: Reject) -> None:
        self.summary.rejected += 1
        if self._dry_run:
            return
        if self._rejects is None:
            self._rejects = self._path.open("wb")
            self.summary.rejects = str(self._path)
        self._rejects.write(msgspec.json.encode(reject) + b"\n")

    def close(self) -> None:
        if self._rejects is not None:
            self._rejects.close()

    def finish(self) -> ImportSummary:
        self.summary.channels = len(self._last_at)
        return self.summary


def _text(value: Scalar) -> str | None:
    """Returns None for an empty value."""
    text = "" if value is None else str(value).strip()
    return text or None
