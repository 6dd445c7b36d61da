"""`hubbub pipeline compact`, `vacuum` and `prune`: the upkeep of the tables, without Spark."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hubbub.cli.failures import FAILED, clear_failures, fail
from hubbub.cli.journal.options import needing_arrow
from hubbub.cli.pipeline import folders, warehouse_option
from hubbub.cli.server.serving import config_option

if TYPE_CHECKING:
    from hubbub.pipeline.tables.location import Location

_WEEK_HOURS = 7 * 24
_DAY_MICROSECONDS = 86_400_000_000


def _now() -> int:
    return time.time_ns() // 1000


def _place(warehouse: Path | str | None, config: Path | None) -> Location:
    from hubbub.pipeline.tables.location import Location

    return Location(folders(None, warehouse, config)[1])


def _command(command: Callable[..., None]) -> Callable[..., None]:
    return warehouse_option(config_option(command))


@click.command()
@_command
def compact(warehouse: Path | str | None, config: Path | None) -> None:
    """Join small files of the tables, up to 64 MB."""
    with clear_failures(), needing_arrow():
        from hubbub.pipeline.jobs import upkeep

        done = upkeep.compact(_place(warehouse, config), _now)
        click.echo(f"joined {done.files:,} files of {done.tables} tables")


@click.command()
@_command
@click.option(
    "--keep-hours",
    type=click.IntRange(0),
    default=_WEEK_HOURS,
    show_default=True,
    help="Versions of so many hours can still be read; 0 keeps the last one only.",
)
@click.option("--hub", help="With --erased: the hub of the user.")
@click.option("--erased", metavar="USER", help="Keep nothing old, and prove that the user is gone.")
def vacuum(
    keep_hours: int,
    hub: str | None,
    erased: str | None,
    warehouse: Path | str | None,
    config: Path | None,
) -> None:
    """Remove files of old versions, and what killed runs left.

    After `hubbub journal erase` and `hubbub pipeline run`, `--erased USER --hub HUB` removes every
    version that still holds the user, and reads all files that are left to prove it."""
    if erased is not None and hub is None:
        fail("--erased needs the hub of the user; give --hub", 2)
    with clear_failures(), needing_arrow():
        from hubbub.pipeline.jobs import upkeep

        place = _place(warehouse, config)
        done = upkeep.vacuum(place, 0 if erased is not None else keep_hours, _now)
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
@_command
@click.option("--older-than", type=click.IntRange(1), required=True, metavar="DAYS")
def prune(older_than: int, warehouse: Path | str | None, config: Path | None) -> None:
    """Remove rows of events that are older than so many days."""
    with clear_failures(), needing_arrow():
        from hubbub.pipeline.jobs import upkeep

        before = _now() - older_than * _DAY_MICROSECONDS
        done = upkeep.prune(_place(warehouse, config), before, _now)
        click.echo(f"removed {done.rows:,} rows from {done.tables} tables")
