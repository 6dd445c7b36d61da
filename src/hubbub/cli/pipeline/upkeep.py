"""`hubbub pipeline compact`, `vacuum` and `prune`: maintain the tables, without Spark."""

from __future__ import annotations

import time
from pathlib import Path

import click

from hubbub.cli.failures import FAILED, WRONG, fail
from hubbub.cli.pipeline.options import warehouse_command
from hubbub.cli.progress import progress_of

_WEEK_HOURS = 7 * 24
_CENTURY_HOURS = 100 * 366 * 24
_DAY_MICROSECONDS = 86_400_000_000


def _now() -> int:
    return time.time_ns() // 1000


@click.command()
@warehouse_command
def compact(warehouse: Path | str) -> None:
    """Join small files of the tables, up to 64 MB."""
    from hubbub.pipeline.jobs import upkeep
    from hubbub.pipeline.tables.location import Location

    done = upkeep.compact(Location(warehouse), _now, progress=progress_of("compacting"))
    click.echo(f"joined {done.files:,} files of {done.tables} tables")


@click.command()
@warehouse_command
@click.option(
    "--keep-hours",
    type=click.IntRange(0, _CENTURY_HOURS),
    default=_WEEK_HOURS,
    show_default=True,
    help="Versions of so many hours can still be read; 0 keeps the last one only.",
)
@click.option("--hub", help="With --erased: the hub of the user.")
@click.option("--erased", metavar="USER", help="Keep nothing old, and prove that the user is gone.")
def vacuum(warehouse: Path | str, keep_hours: int, hub: str | None, erased: str | None) -> None:
    """Remove files of old versions, and what killed runs left.

    After `hubbub journal erase` and `hubbub pipeline run`, `--erased USER --hub HUB` removes every
    version that still holds the user, and reads all files that are left to prove it."""
    from hubbub.pipeline.jobs import upkeep
    from hubbub.pipeline.tables.location import Location

    if erased is not None and hub is None:
        fail("--erased needs the hub of the user; give --hub", WRONG)
    place = Location(warehouse)
    hours = 0 if erased is not None else keep_hours
    done = upkeep.vacuum(place, hours, _now, progress_of("vacuuming"))
    click.echo(f"removed {done.files:,} files of {done.tables} tables")
    if erased is None or hub is None:
        return
    files, found = upkeep.traces(place, hub, erased)
    for trace in found:
        click.echo(f"  {trace.file}: {trace.rows:,} rows, column {trace.column}")
    if found:
        fail(
            "the user is still in the tables; run `hubbub journal erase`, then `hubbub pipeline"
            " run`, then this again",
            FAILED,
        )
    click.echo(f"read all {files:,} files: nothing of the user is left")


@click.command()
@warehouse_command
@click.option("--older-than", type=click.IntRange(1), required=True, metavar="DAYS")
def prune(warehouse: Path | str, older_than: int) -> None:
    """Remove rows of events that are older than so many days."""
    from hubbub.pipeline.jobs import upkeep
    from hubbub.pipeline.tables.location import Location

    before = _now() - older_than * _DAY_MICROSECONDS
    done = upkeep.prune(Location(warehouse), before, _now, progress_of("pruning"))
    click.echo(f"removed {done.rows:,} rows from {done.tables} tables")
