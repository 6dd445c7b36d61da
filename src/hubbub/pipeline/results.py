"""Reads tables and views for display. Needs neither Spark nor Java."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hubbub.domain.analytics import Rows, RowsQuery, Table, table_named
from hubbub.pipeline.errors import PipelineError

if TYPE_CHECKING:
    import pyarrow as pa

    from hubbub.pipeline.tables.snapshot import Snapshot

Found = TypeVar("Found")

POINTS: Final = 300
"""The most points of a line in a chart; more could not be distinguished."""
_PARTS: Final = {"traffic": "traffic_parts", "sessions_hourly": "session_parts"}
"""Tables that can be added up, by the table that is made from them."""
_STATISTICS: Final = ("_min", "_mean", "_stddev", "_p50", "_p90", "_p99", "_max", "_count")
_SUMMED: Final = """
WITH added AS (
  SELECT {step} AS step, bucket, {totals}, sum(n) AS n, min(low) AS low, max(high) AS high,
    sum(total) AS total, sum(squares) AS squares
  FROM parts GROUP BY ALL
), cumulated AS (
  SELECT *, sum(n) OVER (PARTITION BY step ORDER BY bucket NULLS FIRST) AS seen,
    sum(n) OVER (PARTITION BY step) AS every
  FROM added
), summed AS (
  SELECT step, {totals}, sum(n)::BIGINT AS n, min(low) AS low, max(high) AS high,
    sum(total) AS total, sum(squares) AS squares,
    min(bucket) FILTER (seen >= ceil(every * 0.5)) AS b50,
    min(bucket) FILTER (seen >= ceil(every * 0.9)) AS b90,
    min(bucket) FILTER (seen >= ceil(every * 0.99)) AS b99
  FROM cumulated GROUP BY step
)
SELECT * EXCLUDE (n, low, high, total, squares, b50, b90, b99), low AS {prefix}_min,
  mean_of(total, n) AS {prefix}_mean, deviation(squares, total, n) AS {prefix}_stddev,
  percentile_of(b50, low, high) AS {prefix}_p50, percentile_of(b90, low, high) AS {prefix}_p90,
  percentile_of(b99, low, high) AS {prefix}_p99, high AS {prefix}_max, n AS {prefix}_count
FROM summed ORDER BY step
"""
_TRIES: Final = 3
_MOMENT: Final = 1e-6
_LATEST: Final = datetime(9999, 1, 1, tzinfo=UTC).timestamp()
_DAY: Final = 86_400_000_000
_LOOKS_DAYS: Final = (1, 32, 1024)
"""How many days back the newest rows are searched, before everything is read."""


def read_rows(warehouse: Path | str, query: RowsQuery) -> Rows:
    """Rows as of the last round. Raises `NotFound` for an unknown table, `PipelineError`,
    `WarehouseUnreadable`."""
    table = table_named(query.table)

    def read(snapshot: Snapshot) -> Rows:
        found = _newest(snapshot, table, query)
        finished = snapshot.round.finished if snapshot.round else None
        return Rows(
            table=table.name,
            columns=found.column_names if len(found) else [],
            rows=found.slice(0, query.limit).to_pylist(),
            more=len(found) > query.limit,
            computed_at=finished / 1e6 if finished is not None else None,
        )

    return _reading(warehouse, table, read)


def read_summed(
    warehouse: Path | str,
    query: RowsQuery,
    days: int,
    prefix: str,
    counts: Sequence[str],
    steps: Sequence[int],
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The newest days of `traffic` or `sessions_hourly`, summed over hubs: the total, and a series
    with the shortest of `steps` (seconds) that needs at most `POINTS`. `counts` are summed,
    durations are described as columns that begin with `prefix`. Raises the same errors as
    `read_rows`."""
    table = table_named(query.table)

    def read(snapshot: Snapshot) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        from hubbub.pipeline.columns import micros
        from hubbub.pipeline.models.evaluating import connected

        latest = snapshot.round.latest if snapshot.round else None
        since = None if latest is None else latest - days * _DAY
        rows = snapshot.read(_PARTS[table.name], since=since, hub=query.hub)
        at = micros(rows["time"]) // 1_000_000
        span = int(at.max() - at.min()) if len(at) else 0
        step = next((each for each in steps if span / each <= POINTS), steps[-1])
        with connected() as connection:
            connection.register("parts", rows)

            def summed(step: str) -> list[dict[str, Any]]:
                totals = ", ".join(f"sum({name})::BIGINT AS {name}" for name in counts)
                sql = _SUMMED.format(step=step, totals=totals, prefix=prefix)
                found: list[dict[str, Any]] = connection.sql(sql).to_arrow_table().to_pylist()
                return found

            of_step = f"from_micros(micros(time) - micros(time) % {step * 1_000_000})"
            nothing = {**dict.fromkeys(_STATISTICS), **dict.fromkeys(counts, 0)}
            nothing = {f"{prefix}{name}" if name in _STATISTICS else name: value
                       for name, value in nothing.items()}  # fmt: skip
            return next(iter(summed("true")), nothing), summed(of_step)

    return _reading(warehouse, table, read)


def computed_at(warehouse: Path | str) -> float:
    """When the last round ended, in seconds since 1970; 0 if there was none."""
    snapshot = _open(warehouse)
    return (snapshot.round.finished or 0) / 1e6 if snapshot.round else 0.0


def _open(warehouse: Path | str) -> Snapshot:
    try:
        from hubbub.pipeline.tables.snapshot import open_snapshot
    except ImportError as error:
        raise PipelineError(
            f"reading tables needs {error.name}, which is not installed; `make pipeline` installs"
            " it"
        ) from None
    return open_snapshot(warehouse)


def _reading(warehouse: Path | str, table: Table, read: Callable[[Snapshot], Found]) -> Found:
    for _ in range(_TRIES):
        snapshot = _open(warehouse)
        try:
            return read(snapshot)
        except FileNotFoundError:
            continue  # vacuum removed the files of this round since: look again
    raise PipelineError(f"the table {table.name} changes faster than it can be read; try again")


def _newest(snapshot: Snapshot, table: Table, query: RowsQuery) -> pa.Table:
    """Returns one extra row, if there is one. A few rows of a long history are cheap: newer days
    are searched first."""
    found = None
    for since in _looks(snapshot, table, query):
        whole = snapshot.read(table.name, since=since, until=_micros(query.until), hub=query.hub)
        found = _chosen(whole, table, query)
        if query.step_seconds:
            found = _joined(found, table, query.step_seconds)
        if len(found) > query.offset + query.limit:
            break
    assert found is not None
    return found.slice(query.offset, query.limit + 1)


def _looks(snapshot: Snapshot, table: Table, query: RowsQuery) -> Iterator[int | None]:
    latest = snapshot.round.latest if snapshot.round else None
    least = _micros(query.since)
    if latest is not None and table.time is not None and table.order[0] == f"-{table.time}":
        ends = [end for end in (latest, _micros(query.until)) if end is not None]
        for days in _LOOKS_DAYS:
            since = min(ends) - days * _DAY
            if least is not None and since <= least:
                break
            yield since
    yield least


def _micros(seconds: float | None) -> int | None:
    return None if seconds is None else int(min(max(seconds, 0.0), _LATEST) * 1e6)


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


def _joined(rows: pa.Table, table: Table, step_seconds: int) -> pa.Table:
    """One row per time step, newest first: counts are summed, levels take the maximum."""
    from hubbub.pipeline.columns import micros, times

    at, step = micros(rows["time"]), step_seconds * 1_000_000
    stepped = rows.select([*table.counts, *table.levels]).append_column(
        "time", times(at - at % step)
    )
    how = [*((name, "sum") for name in table.counts), *((name, "max") for name in table.levels)]
    found = stepped.group_by("time").aggregate(how)
    named = found.select(["time", *(f"{name}_{way}" for name, way in how)])
    return named.rename_columns(["time", *(name for name, _ in how)]).sort_by(
        [("time", "descending")]
    )


def _comparable(table: Table, seconds: float) -> Any:
    if table.time in ("hour", "day"):
        within = min(max(seconds, 0.0), _LATEST)
        return f"{datetime.fromtimestamp(within, UTC):%Y-%m-%dT%H}"[
            : 13 if table.time == "hour" else 10
        ]
    import pyarrow as pa

    return pa.scalar(int(seconds * 1e6), pa.timestamp("us", tz="UTC"))
