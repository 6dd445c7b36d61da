"""Reads the tables for those who look at them. Needs Arrow, but neither Spark nor Java."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hubbub.domain.analytics import Rows, RowsQuery, Table, table_named
from hubbub.pipeline.errors import PipelineError
from hubbub.pipeline.warehouse import Warehouse

if TYPE_CHECKING:
    import pyarrow as pa

_FOR_ADDING_UP = ("_buckets", "_squares", "_sum")
"""Endings of columns that are kept so that rows can be added up. They say nothing to people."""
_TRIES = 3
_HOUR = "%Y-%m-%dT%H"
_MOMENT = 1e-6
_LATEST = datetime(9999, 1, 1, tzinfo=UTC).timestamp()


def read_rows(folder: Path, query: RowsQuery) -> Rows:
    """Rows as they were last committed. Raises `NotFound` for a table that is none,
    `PipelineError`, `WarehouseUnreadable`."""
    table = table_named(query.table)
    for _ in range(_TRIES):
        try:
            return _read(Warehouse(folder), table, query)
        except FileNotFoundError:
            continue  # a run replaced the files since: look again
    raise _changing(table)


def read_all(folder: Path, name: str, hub: str | None, days: int) -> list[dict[str, Any]]:
    """All rows of the newest days of a table by the hour, with all columns. Raises as above."""
    table = table_named(name)
    query = RowsQuery(name, hub=hub)
    for _ in range(_TRIES):
        warehouse = Warehouse(folder)
        warehouse.load()
        partitions = sorted(warehouse.partitions(name))
        newest = datetime.strptime(partitions[-1], _HOUR) if partitions else datetime.min
        oldest = f"{newest - timedelta(days=days) if partitions else newest:{_HOUR}}"
        try:
            return [
                row
                for partition in partitions
                if partition > oldest
                for row in _chosen(
                    _load(warehouse, table, partition, True), table, query
                ).to_pylist()
            ]
        except FileNotFoundError:
            continue
    raise _changing(table)


def _changing(table: Table) -> PipelineError:
    return PipelineError(f"the table {table.name} changes faster than it can be read; try again")


def _read(warehouse: Warehouse, table: Table, query: RowsQuery) -> Rows:
    state = warehouse.load()
    found: list[dict[str, Any]] = []
    columns: list[str] = []
    for part in _parts(warehouse, table, query):
        columns = columns or part.column_names
        found += part.slice(0, query.limit + 1 - len(found)).to_pylist()
        if len(found) > query.limit:
            break
    return Rows(
        table=table.name,
        columns=columns,
        rows=found[: query.limit],
        more=len(found) > query.limit,
        computed_at=state.committed_at / 1e6 if state.committed_at else None,
    )


def _parts(warehouse: Warehouse, table: Table, query: RowsQuery) -> Iterator[pa.Table]:
    """One partition after the other, the newest first, so that a few rows of a long history cost
    little."""
    for partition in sorted(warehouse.partitions(table.name), reverse=True):
        if not _may_hold(partition, query):
            continue
        yield _chosen(_load(warehouse, table, partition), table, query)


def _load(warehouse: Warehouse, table: Table, partition: str, everything: bool = False) -> pa.Table:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise PipelineError(
            "reading tables needs pyarrow, which is not installed; `make pipeline` installs it"
        ) from None
    files = warehouse.files(table.name, [partition])
    try:
        whole = pa.concat_tables([pq.ParquetFile(path).read() for path in files])
    except pa.ArrowInvalid as error:
        raise PipelineError(
            f"a file of the table {table.name} is damaged ({error}); make the tables again with"
            " `hubbub pipeline run --full`"
        ) from error
    if not everything:
        whole = whole.drop_columns([name for name in whole.column_names if _is_hidden(name)])
    if partition and (column := "hour" if "T" in partition else "day") not in whole.column_names:
        whole = whole.append_column(column, pa.array([partition] * len(whole), pa.string()))
    return whole


def _is_hidden(column: str) -> bool:
    return column == "slots" or column.endswith(_FOR_ADDING_UP)


def _chosen(whole: pa.Table, table: Table, query: RowsQuery) -> pa.Table:
    import pyarrow.compute as pc

    if query.hub is not None:
        whole = whole.filter(pc.equal(whole["hub"], query.hub))
    if table.time is not None:
        # An hour or a day as text is wanted if any of it is.
        part = {"hour": 3600.0, "day": 86_400.0}.get(table.time, 0.0)
        until = query.until + part - _MOMENT if query.until is not None and part else query.until
        for bound, keeps in ((query.since, pc.greater_equal), (until, pc.less)):
            if bound is not None:
                whole = whole.filter(keeps(whole[table.time], _comparable(table, bound)))
    return whole.sort_by(
        [
            (name.removeprefix("-"), "descending" if name.startswith("-") else "ascending")
            for name in table.order
        ]
    )


def _comparable(table: Table, seconds: float) -> Any:
    if table.time in ("hour", "day"):
        return _partition_at(seconds)[: 13 if table.time == "hour" else 10]
    import pyarrow as pa

    return pa.scalar(int(seconds * 1e6), pa.timestamp("us", tz="UTC"))


def _may_hold(partition: str, query: RowsQuery) -> bool:
    """Rows of a partition may be later than its hour, as sessions are that ended long after they
    began, but not earlier."""
    late = query.until is not None and partition > _partition_at(query.until)[: len(partition)]
    return not (partition and late)


def _partition_at(seconds: float) -> str:
    """Of a time that may be far from any that can be written."""
    within = min(max(seconds, 0.0), _LATEST)
    return f"{datetime.fromtimestamp(within, UTC):%Y-%m-%dT%H}"
