"""`hubbub journal import`: imports the history of another system for the pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click

from hubbub.cli.failures import FAILED, WRONG, fail
from hubbub.cli.journal.options import journal_command
from hubbub.cli.progress import progress_of
from hubbub.cli.tables import answer, json_option

if TYPE_CHECKING:
    from hubbub.journal.importing import ImportSummary


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--hub", envvar="HUBBUB_HUB", default="demo", show_default=True, help="The hub it belongs to."
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(("csv", "tsv", "jsonl", "json")),
    help="Without it, by the file's name.",
)
@click.option(
    "--columns",
    metavar="ROLE=NAME,…",
    help="Which column is the time, channel, sender, text, id, reply-to, conversation; numbers"
    " from 1 if the file has no header.",
)
@click.option("--channel", help="The channel of messages for which the file names none.")
@click.option("--encoding", default="auto", show_default=True, help="Of the file.")
@click.option("--timezone", default="UTC", show_default=True, help="Of times that name none.")
@click.option("--time-format", metavar="FORMAT", help="How times are written, as for strptime.")
@click.option(
    "--rejects",
    type=click.Path(path_type=Path, dir_okay=False),
    help="What cannot be read goes there; without it, to FILE.rejects.jsonl.",
)
@click.option("--dry-run", is_flag=True, help="Read everything, write nothing.")
@json_option
@journal_command
def import_command(
    journal: Path,
    file: Path,
    hub: str,
    kind: str | None,
    columns: str | None,
    channel: str | None,
    encoding: str,
    timezone: str,
    time_format: str | None,
    rejects: Path | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Turn FILE, a log of messages of another system, into segments of the journal.

    Its columns are a time, a channel, a sender and a text, and perhaps an id, the id of the
    message that it answers, and the conversation. Importing a file again adds only what is new.
    """
    from hubbub.journal.importing import Source, import_log

    source = Source(
        path=file,
        hub=hub,
        format=kind,  # type: ignore[arg-type] # one of the choices
        columns=_columns(columns),
        channel=channel,
        encoding=encoding,
        zone=_zone(timezone),
        time_layout=time_format,
    )
    aside = rejects or file.with_name(f"{file.name}.rejects.jsonl")
    progress = progress_of(f"importing {file.name}")
    summary = import_log(source, journal, aside, dry_run=dry_run, progress=progress)
    answer(summary, _describe(summary, dry_run), as_json)
    if not summary.imported and not summary.known and summary.rejected:
        fail("nothing in the file could be read", FAILED)


def _columns(text: str | None) -> dict[str, str]:
    if not text:
        return {}
    found = {}
    for part in text.split(","):
        role, equals, name = part.partition("=")
        if not equals or not role.strip() or not name.strip():
            fail(f"--columns is a list such as time=ts,text=body; {part!r} is no part of it", WRONG)
        found[role.strip()] = name.strip()
    return found


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        fail(f"there is no time zone {name!r}; give one such as Europe/Berlin", WRONG)


def _describe(summary: ImportSummary, dry_run: bool) -> str:
    from hubbub.journal.sealed import moment

    verb = "would import" if dry_run else "imported"
    lines = [f"{verb} {_count(summary.imported, 'message')}"]
    if summary.first is not None and summary.last is not None:
        lines[0] += (
            f" of {_count(summary.channels, 'channel')}, {moment(summary.first)} to"
            f" {moment(summary.last)}"
        )
    if summary.segments:
        lines.append(f"wrote {', '.join(summary.segments)}")
    remarks = (
        (summary.known, "already in the journal"),
        (summary.repeated, "repeated with the same id"),
        (summary.renamed, "of channels whose '#' was left out"),
        (summary.not_utf8, "not in UTF-8, read as Latin 1"),
        (summary.clock_back, "older than the one before in the channel"),
        (summary.rejected, "rejected" + (f", see {summary.rejects}" if summary.rejects else "")),
    )
    lines += [f"{number:,} {what}" for number, what in remarks if number]
    return "\n".join(lines)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
