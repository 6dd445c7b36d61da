"""`hubbub journal show`, `segments` and `seal`: look into the journal."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from hubbub.cli.failures import fail
from hubbub.cli.journal.options import journal_command
from hubbub.cli.printing import escape_control
from hubbub.cli.tables import answer, json_option, show_list
from hubbub.cli.times import Moment
from hubbub.domain.journal import KINDS, JournalEvent
from hubbub.journal.folder import JournalFolder
from hubbub.journal.records import NotASegment, read_events

_FIRST = ("kind", "at", "hub", "channel")


@click.command()
@click.option("--hub", "hub_name", help="Only this hub.")
@click.option("--channel", help="Only this channel.")
@click.option("--kind", help="Only this kind, such as message.published.")
@click.option(
    "--since", type=Moment(), help="Only from this time on: 2026-09-21T14:00 (UTC), or 15m, 2h, 1d."
)
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="The newest.")
@json_option
@journal_command
def show(
    hub_name: str | None,
    channel: str | None,
    kind: str | None,
    since: int | None,
    limit: int,
    as_json: bool,
    journal: Path,
) -> None:
    """Print events, the newest last."""
    if kind is not None and kind not in KINDS:
        fail(f"there is no kind {kind!r}; there are {', '.join(sorted(KINDS))}", 2)
    folder = _folder(journal)
    newest: deque[JournalEvent] = deque(maxlen=limit)
    for event in _events(folder):
        if (
            event.at >= (since or 0)
            and hub_name in (None, event.hub)
            and channel in (None, event.channel)
            and kind in (None, event.kind)
        ):
            newest.append(event)
    for event in newest:
        answer(event, _line(event), as_json)
    if not newest:
        click.echo(f"there are no such events in {folder.path}", err=True)


@click.command()
@json_option
@journal_command
def segments(as_json: bool, journal: Path) -> None:
    """List the segments, the oldest first."""
    folder = _folder(journal)
    found = [(path, state) for state in ("sealed", "closed", "open") for path in _of(folder, state)]
    entries = [
        {"segment": path.stem, "state": state, "bytes": path.stat().st_size}
        for path, state in sorted(found, key=lambda each: each[0].stem.split("-", 1)[-1])
    ]
    columns = {"SEGMENT": "segment", "STATE": "state", "BYTES": "bytes"}
    show_list(entries, columns, f"there are no segments in {folder.path}", as_json)


@click.command()
@journal_command
def seal(journal: Path) -> None:
    """Turn all that happened until now into Parquet; a running hub is asked for its newest."""
    from hubbub.journal.sealing import seal_all

    folder = _folder(journal)
    try:
        sealed = seal_all(folder.path)
    except OSError as error:
        fail(f"{folder.path} could not be sealed: {error.strerror or error}")
    for path in sealed:
        click.echo(path.name)
    click.echo(f"sealed {len(sealed)} segments", err=True)


def _folder(journal: Path) -> JournalFolder:
    if not journal.is_dir():
        fail(f"there is no journal in {journal}; give its folder with --journal")
    return JournalFolder(journal)


def _of(folder: JournalFolder, state: str) -> list[Path]:
    if state == "sealed":
        return folder.sealed_segments()
    return sorted((folder.closed if state == "closed" else folder.open).glob("*.hbj"))


def _events(folder: JournalFolder) -> Iterator[JournalEvent]:
    """Events by segment, in the order of their creation."""
    found = [*_of(folder, "sealed"), *_of(folder, "closed"), *_of(folder, "open")]
    for path in sorted(found, key=lambda each: each.stem.split("-", 1)[-1]):
        try:
            yield from _read_sealed(path) if path.suffix == ".parquet" else read_events(path)
        except (NotASegment, FileNotFoundError):
            continue  # just begun, or just moved on


def _read_sealed(path: Path) -> Iterator[JournalEvent]:
    from hubbub.journal.parquet import read_sealed

    return read_sealed(path)


def _line(event: JournalEvent) -> str:
    """Time, kind, hub and channel, then the other fields."""
    at = datetime.fromtimestamp(event.at / 1e6, UTC)
    parts = [f"{at:%Y-%m-%dT%H:%M:%S.%f}Z", event.kind, event.hub, event.channel or ""]
    values: dict[str, Any] = msgspec.structs.asdict(event)
    node = values.pop("node")
    for name, value in [*values.items(), ("node", node)]:
        if name not in _FIRST and value not in (None, ""):
            parts.append(f"{name}={_value(value)}")
    return escape_control("  ".join(part for part in parts if part))


def _value(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, dict):
        return ",".join(f"{key}:{each}" for key, each in sorted(value.items()))
    return str(value)
