"""`hubbub pipeline show` and `hubbub pipeline report`: read the tables, without Spark."""

from __future__ import annotations

import csv
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from hubbub.cli.failures import WRONG, fail
from hubbub.cli.pipeline.options import format_option, no_tables, warehouse_command
from hubbub.cli.pipeline.report.wording import duration as in_words
from hubbub.cli.printing import to_json
from hubbub.cli.tables import readable, table
from hubbub.domain.analytics import LISTED, WHOLE_TABLE_ROWS, Rows, RowsQuery, table_named
from hubbub.domain.errors import NotFound

hub_option = click.option("--hub", help="Only this hub; `*` is the sum of all, if there is one.")
_TIME = click.DateTime(formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"])
_DURATIONS = ("duration", "latency_", "response_", "session_time")
_NO_DURATIONS = ("_count", "_share")


@click.command()
@click.argument("name", metavar="[TABLE]", required=False)
@format_option("For people, or for programs: then durations are microseconds, and times ISO 8601.")
@click.option(
    "--limit", type=click.IntRange(1, WHOLE_TABLE_ROWS), default=50, show_default=True, help="Rows."
)
@hub_option
@click.option("--since", type=_TIME, metavar="TIME", help="Only from this time on, in UTC.")
@click.option("--until", type=_TIME, metavar="TIME", help="Only before this time, in UTC.")
@warehouse_command
def show(
    warehouse: Path | str,
    name: str | None,
    form: str,
    limit: int,
    hub: str | None,
    since: datetime | None,
    until: datetime | None,
) -> None:
    """Show rows of TABLE, or without one the tables that there are."""
    if name is None:
        for line in table(["TABLE", "ANSWERS"], [[each.name, each.question] for each in LISTED]):
            click.echo(line)
        return
    from hubbub.pipeline.results import read_rows

    try:
        table_named(name)
    except NotFound as error:
        fail(error.message, WRONG)
    found = read_rows(warehouse, RowsQuery(name, hub, _seconds(since), _seconds(until), limit))
    if found.computed_at is None:
        no_tables(warehouse)
    {"table": _as_table, "csv": _as_csv, "json": _as_json}[form](found)


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("report.html"),
    show_default=True,
    help="The file to write; `-` is the standard output.",
)
@hub_option
@click.option(
    "--days", type=click.IntRange(1, 366), default=31, show_default=True, help="How far back."
)
@warehouse_command
def report(warehouse: Path | str, out: Path, hub: str | None, days: int) -> None:
    """Write one page of HTML with plots of everything. It needs no other file."""
    from hubbub.cli.pipeline.report import make_report
    from hubbub.pipeline.results import computed_at

    if not computed_at(warehouse):
        no_tables(warehouse)
    page = make_report(warehouse, hub, days)
    if str(out) == "-":
        click.echo(page)
        return
    draft = out.with_name(f"{out.name}.draft")
    draft.write_text(page, "utf-8")
    os.replace(draft, out)
    click.echo(f"wrote {out} ({len(page.encode()) / 1000:.0f} KB); open it in a browser")


def _seconds(time: datetime | None) -> float | None:
    return time.replace(tzinfo=UTC).timestamp() if time is not None else None


def _as_table(found: Rows) -> None:
    if not found.rows:
        click.echo("no rows", err=True)
        return
    columns = found.columns
    rows = [[_told(name, row[name]) for name in columns] for row in found.rows]
    for line in table([name.upper().replace("_", " ") for name in columns], rows):
        click.echo(line)
    if found.more:
        click.echo("there are more; see --limit, --since, --until", err=True)


def _as_csv(found: Rows) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(found.columns)
    for row in found.rows:
        writer.writerow([_plain(row[name]) for name in found.columns])


def _as_json(found: Rows) -> None:
    for row in found.rows:
        click.echo(to_json(row))


def _told(column: str, value: Any) -> str:
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
    if column.startswith(_DURATIONS) and not column.endswith(_NO_DURATIONS):
        return in_words(value) if value is not None else "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.2f}"
    return readable(value)


def _plain(value: Any) -> Any:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value
