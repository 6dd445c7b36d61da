"""`hubbub pipeline sql`, `export`, `status` and `package`: for analysts, and for a cluster."""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hubbub.cli.failures import WRONG, clear_failures, fail
from hubbub.cli.journal.options import existing, needing_arrow
from hubbub.cli.numbers import FiniteRange
from hubbub.cli.pipeline.options import (
    folders,
    format_option,
    journal_option,
    no_tables,
    round_option,
    warehouse_command,
    warehouse_option,
)
from hubbub.cli.printing import to_json
from hubbub.cli.server.serving import config_option
from hubbub.cli.tables import json_option, readable, show_entry, table

if TYPE_CHECKING:
    import pyarrow as pa

    from hubbub.pipeline.tables.snapshot import Snapshot

_SHOWN_ROWS = 1_000
"""The most rows of a formatted table, which is laid out as a whole."""


@click.command()
@click.argument("query", metavar="QUERY")
@format_option(f"For people, at most {_SHOWN_ROWS:,} rows, or for programs.")
@round_option
@warehouse_command
def sql(warehouse: Path | str, query: str, form: str, number: int | None) -> None:
    """Answer one SELECT over the tables and views.

    `hubbub pipeline show` lists their names. Files, networks and settings are out of reach."""
    snapshot = _snapshot(warehouse, number)
    from hubbub.pipeline.querying import query as ask

    rows = ask(snapshot, query)
    {"table": _print_table, "csv": _print_csv, "json": _print_json}[form](rows)


@click.command()
@click.argument("name", metavar="TABLE")
@click.argument("target", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False))
@round_option
@warehouse_command
def export(warehouse: Path | str, name: str, target: Path, number: int | None) -> None:
    """Write all rows of a table or view to FILE, which ends in .parquet or .csv."""
    write = _writers().get(target.suffix)
    if write is None:
        fail(f"{target}: give a name that ends in {' or '.join(_writers())}", WRONG)
    snapshot = _snapshot(warehouse, number)
    if name not in snapshot.names:
        fail(f"there is no table {name}; there are {', '.join(snapshot.names)}", WRONG)
    rows = snapshot.read(name)
    draft = target.with_name(f"{target.name}.draft")
    write(rows, draft)
    draft.replace(target)
    click.echo(f"wrote {rows.num_rows:,} rows to {target}")


@click.command()
@journal_option
@warehouse_option
@config_option
@json_option
def status(
    journal: Path | str | None, warehouse: Path | str | None, config: Path | None, as_json: bool
) -> None:
    """Tell how far the tables are: the last round, what runs now, and what waits in the journal."""
    with clear_failures(), needing_arrow():
        if isinstance(journal, Path):
            existing(journal)
        journal, warehouse = folders(journal, warehouse, config)
        from hubbub.pipeline.status import status_of
        from hubbub.pipeline.tables.location import Location

        found = status_of(Location(warehouse), Location(journal), time.time())
        if found is None:
            no_tables(warehouse)
        show_entry(found, as_json)


@click.command()
@click.argument(
    "target", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False), required=False
)
def package(target: Path | None) -> None:
    """Write the archive that the workers of a Spark cluster need (hubbub-pipeline.tar.gz).

    Give it to a run with `--package FILE`. The workers need the same version of Python."""
    from hubbub.pipeline.packaging import build

    target = target or Path("hubbub-pipeline.tar.gz")
    with clear_failures():
        size = build(target)
        click.echo(
            f"wrote {target} ({size / 1e6:.0f} MB); run with"
            f" `hubbub pipeline run --master spark://… --package {target}`"
        )


@click.command()
@click.option(
    "--publishes",
    type=FiniteRange(0, min_open=True),
    help="Messages a second.",
)
@click.option(
    "--deliveries",
    type=FiniteRange(0, min_open=True),
    help="Deliveries a second.",
)
@click.option(
    "--used",
    type=FiniteRange(0, 1, min_open=True),
    help="How much of a node may be in use, so that one may fail or a peak may come.",
)
@warehouse_command
@json_option
def capacity(
    warehouse: Path | str,
    as_json: bool,
    publishes: float | None,
    deliveries: float | None,
    used: float | None,
) -> None:
    """Tell or set what one node can take, by which the forecast counts nodes.

    Without a setting it is what was measured (docs/benchmarks.md)."""
    from hubbub.pipeline.tables.capacity import read_capacity, write_capacity
    from hubbub.pipeline.tables.location import Location

    place = Location(warehouse)
    given = {
        "publishes_per_second": publishes,
        "deliveries_per_second": deliveries,
        "used": used,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    now = replace(read_capacity(place), **changes)
    if changes:
        write_capacity(place, now)
    show_entry(asdict(now), as_json)


def _snapshot(warehouse: Path | str, number: int | None) -> Snapshot:
    from hubbub.pipeline.tables.snapshot import open_snapshot

    snapshot = open_snapshot(warehouse, number)
    if snapshot.round is None:
        no_tables(warehouse)
    return snapshot


def _print_table(rows: pa.RecordBatchReader) -> None:
    lines: list[list[str]] = []
    for row in _values(rows):
        if len(lines) == _SHOWN_ROWS:
            click.echo(f"only the first {_SHOWN_ROWS:,} rows; see --format", err=True)
            break
        lines.append([_readable(value) for value in row])
    if not lines:
        click.echo("no rows", err=True)
    for line in table(rows.schema.names, lines) if lines else ():
        click.echo(line)


def _print_csv(rows: pa.RecordBatchReader) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(rows.schema.names)
    writer.writerows(map(_plain, row) for row in _values(rows))


def _print_json(rows: pa.RecordBatchReader) -> None:
    for row in _values(rows):
        click.echo(to_json(dict(zip(rows.schema.names, map(_plain, row), strict=True))))


def _values(rows: pa.RecordBatchReader) -> Iterator[tuple[Any, ...]]:
    for batch in rows:
        yield from zip(*map(_listed, batch.schema.names, batch.columns), strict=True)


def _listed(name: str, column: pa.Array) -> list[Any]:
    try:
        found: list[Any] = column.to_pylist()
    except OverflowError:
        fail(f"the column {name} holds a time before the year 1 or after 9999; cast it to VARCHAR")
    return found


def _readable(value: Any) -> str:
    return f"{value:%Y-%m-%d %H:%M:%S}" if isinstance(value, datetime) else readable(value)


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def _writers() -> dict[str, Callable[[pa.Table, Path], object]]:
    import pyarrow.csv
    import pyarrow.parquet

    def write_csv(rows: pa.Table, path: Path) -> None:
        pyarrow.csv.write_csv(_flat(rows), path)

    return {".parquet": pyarrow.parquet.write_table, ".csv": write_csv}


def _flat(rows: pa.Table) -> pa.Table:
    """Converts lists, maps and objects to JSON text, since CSV cannot represent them."""
    import pyarrow as pa

    for place, field in enumerate(rows.schema):
        if pa.types.is_nested(field.type):
            texts = [None if each is None else to_json(each) for each in rows[place].to_pylist()]
            rows = rows.set_column(place, field.name, pa.array(texts, pa.string()))
    return rows
