"""A consistent snapshot of all tables, for readers. Needs neither Spark nor Java.

Readers never list folders: the last completed round names the version of every table.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, reduce
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyarrow import fs

from hubbub.domain.analytics import table_named
from hubbub.domain.errors import NotFound
from hubbub.pipeline.catalogue import TABLES
from hubbub.pipeline.columns import HOUR
from hubbub.pipeline.errors import NoSuchRound, WarehouseUnreadable, in_one_line
from hubbub.pipeline.models import MODELS, Model
from hubbub.pipeline.models.evaluating import connected
from hubbub.pipeline.partitions import Span, began, micros, moment, named, widened
from hubbub.pipeline.tables.capacity import read_capacity
from hubbub.pipeline.tables.location import Location
from hubbub.pipeline.tables.rounds import DONE, Round, all_rounds, last_done
from hubbub.pipeline.views import VIEWS
from hubbub.pipeline.views.forecast import make_view
from hubbub.pipeline.views.view import View


@dataclass(frozen=True)
class Window:
    """A time range in microseconds since 1970: `since` inclusive, `until` exclusive; None:
    unbounded."""

    since: int | None = None
    until: int | None = None

    def widened(self, unit: str) -> Window:
        """Extends the range to whole hours or days."""
        since = None if self.since is None else widened(self.since, self.since, unit)[0]
        until = None if self.until is None else widened(self.until, self.until, unit)[1]
        return Window(since, until)


@dataclass(frozen=True)
class DataFile:
    """A file of a table, with the bounds of its times and segments. Times are microseconds since
    1970."""

    path: str
    size: int
    rows: int
    bounds: Mapping[str, Span]
    """The first and the last time, by the columns that have statistics."""
    time: str | None
    """The table's time column."""
    first_segment: str
    last_segment: str

    def overlaps(self, since: int, until: int, column: str | None = None) -> bool:
        """Whether it may contain rows of the time range, by its time column or another one; a file
        without statistics always may."""
        found = self.bounds.get(column or self.time or "")
        return found is None or (found[0] < until and found[1] >= since)

    def may_hold(self, segments: Iterable[str]) -> bool:
        """Whether it may contain rows of the segments; a file without statistics always may."""
        return not self.last_segment or any(
            self.first_segment <= name <= self.last_segment for name in segments
        )


class Snapshot:
    """Tables and views as of `round`; None if the pipeline never ran, and all are empty."""

    names: Final = (*TABLES, *(name for name in MODELS if name not in TABLES), *VIEWS)

    def __init__(self, location: Location, last: Round | None) -> None:
        self.location = location
        self.round = last
        self._read: dict[str, pa.Table] = {}
        self.files = cache(self._files)
        """The files of a materialised table by name, cached."""

    @staticmethod
    def schemas() -> dict[str, pa.Schema]:
        """The columns of all tables and views by name."""
        return {
            **{name: table.schema for name, table in TABLES.items()},
            **{name: model.schema for name, model in MODELS.items()},
            **{name: view.schema for name, view in VIEWS.items()},
        }

    def delta(self, name: str) -> DeltaTable | None:
        """The Delta table at the snapshot's version; None if nothing was ever written to it. Raises
        `WarehouseUnreadable`."""
        version = self.round.versions.get(name) if self.round else None
        if version is None:
            return None
        try:
            return DeltaTable(str(self.location / name), version=version)
        except DeltaError as error:
            raise WarehouseUnreadable(
                f"the log of the table {name} cannot be read ({in_one_line(error)}); try again, or"
                " make the tables again with `hubbub pipeline run --full` in an empty folder"
            ) from error

    def _files(self, name: str) -> list[DataFile]:
        delta = self.delta(name)
        if delta is None:
            return []
        table = TABLES[name]
        return [
            DataFile(
                row["path"],
                row["size_bytes"],
                row["num_records"] or 0,
                _bounds(row, table.by),
                table.time,
                row.get("min.segment") or "",
                row.get("max.segment") or "",
            )
            for row in pa.table(delta.get_add_actions(flatten=True)).to_pylist()
        ]

    def lost(self) -> Iterator[str]:
        """The tables with missing files, or without the log of the snapshot's version."""
        for name in TABLES.keys() & self.round.versions if self.round else ():
            files, folder = (self.location / name).open()
            infos = files.get_file_info(fs.FileSelector(folder, allow_not_found=True))
            there = {info.base_name for info in infos}
            try:
                if not there.issuperset(file.path for file in self.files(name)):
                    yield name
            except WarehouseUnreadable:
                yield name

    def table(self, name: str) -> ds.Dataset:
        """Opens a stored table. Raises `NotFound` for any other name, `WarehouseUnreadable`."""
        if name not in TABLES:
            raise NotFound(f"there is no table {name!r}; there are {', '.join(TABLES)}")
        if name in MODELS and self.round and name not in self.round.models:
            raise WarehouseUnreadable(
                f"round {self.round.round} did not make the table {name}, which is new in this"
                " version of Hubbub; `hubbub pipeline run` makes it, also from older events"
            )
        delta = self.delta(name)
        if delta is None:
            return ds.dataset(TABLES[name].schema.empty_table())
        # Without one, Arrow's threads would call Python, which aborts a process that is ending.
        native = fs.SubTreeFileSystem(*reversed((self.location / name).open()))
        return delta.to_pyarrow_dataset(filesystem=native, schema=TABLES[name].schema)

    def read(
        self,
        name: str,
        *,
        columns: Sequence[str] | None = None,
        since: int | None = None,
        until: int | None = None,
        hub: str | None = None,
    ) -> pa.Table:
        """Rows of a table or a view. `since` and `until`, in microseconds since 1970, filter by
        the time column; hours and days as text count if any of them is in between. Raises
        `NotFound`, `WarehouseUnreadable`."""
        window = Window(since, until)
        if name in TABLES or not (name in MODELS or name in VIEWS):
            return self._rows(name, window, columns, hub)
        if name in MODELS:
            return self._evaluated(MODELS[name], window, columns, hub)
        rows = self._view(VIEWS[name])
        where = row_filter(rows.schema, _time_of(name), window, hub)
        rows = rows if where is None else rows.filter(where)
        return rows if columns is None else rows.select(list(columns))

    def defined(self, connection: Any, name: str) -> None:
        """Makes a table or a view known to DuckDB by its name, with all that it reads."""
        if name in TABLES:
            connection.register(name, self.table(name))
        elif name in VIEWS:
            connection.register(name, self.read(name))
        else:
            for source in MODELS[name].reads:
                self.defined(connection, source)
            connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {MODELS[name].text}")

    def _evaluated(
        self, model: Model, window: Window, columns: Sequence[str] | None, hub: str | None
    ) -> pa.Table:
        """The rows of a model that is not stored."""
        shape = pa.schema([model.schema.field(name) for name in columns or model.schema.names])
        names = ", ".join(f'"{name}"' for name in shape.names)
        where = _condition(model.schema, _time_of(model.name), window, hub)
        with connected() as connection:
            self.defined(connection, model.name)
            # DuckDB hands the condition and the columns down to the files.
            sql = f"SELECT {names} FROM {model.name} WHERE {where}"  # noqa: S608
            found: pa.Table = connection.sql(sql).to_arrow_table().cast(shape)
        return found

    def _view(self, view: View) -> pa.Table:
        known = self._read.get(view.name)
        if known is None:
            window = Window() if view.recent_hours is None else self._recent(view.recent_hours)
            sources = {
                name: self._view(VIEWS[name])
                if name in VIEWS
                else self._rows(name, window, columns)
                for name, columns in view.sources.items()
            }
            if view.name == "forecast":
                view = make_view(read_capacity(self.location))
            known = self._read[view.name] = view.evaluate(sources)
        return known

    def _recent(self, hours: int) -> Window:
        latest = self.round.latest if self.round else None
        return Window() if latest is None else Window((latest // HOUR - hours + 1) * HOUR)

    def _rows(
        self, name: str, window: Window, columns: Sequence[str] | None, hub: str | None = None
    ) -> pa.Table:
        dataset = self.table(name)
        wanted = list(dict.fromkeys(columns)) if columns else None
        where = row_filter(TABLES[name].schema, TABLES[name].time, window, hub)
        try:
            return dataset.to_table(columns=wanted, filter=where)
        except pa.ArrowInvalid as error:
            raise WarehouseUnreadable(
                f"a file of the table {name} is damaged ({in_one_line(error)}); make the tables"
                " again with `hubbub pipeline run --full`"
            ) from error


def _bounds(row: Mapping[str, Any], columns: Sequence[str]) -> dict[str, Span]:
    """The statistics of a file: times, or hours, days and months as text."""
    known = {name: (row.get(f"min.{name}"), row.get(f"max.{name}")) for name in columns}
    return {
        name: (_moment(least), _moment(greatest))
        for name, (least, greatest) in known.items()
        if least is not None and greatest is not None
    }


def _moment(value: datetime | str) -> int:
    return began(value) if isinstance(value, str) else micros(value)


def _time_of(name: str) -> str | None:
    return table_named(name).time


def _condition(shape: pa.Schema, time: str | None, window: Window, hub: str | None) -> str:
    """The same as `row_filter`, in SQL."""
    wanted = ["true"]
    if hub is not None:
        wanted.append("hub = '{}'".format(hub.replace("'", "''")))
    for bound, keeps in ((window.since, ">="), (window.until, "<")):
        if time is not None and bound is not None:
            wanted.append(f'"{time}" {keeps} {moment(shape, time, time, bound)}')
    return " AND ".join(wanted)


def row_filter(
    schema: pa.Schema, time: str | None, window: Window, hub: str | None
) -> pc.Expression | None:
    """None if all rows are selected. `time` names the time column."""
    wanted = []
    unit = time if time is not None and pa.types.is_string(schema.field(time).type) else None
    if unit is not None:
        window = window.widened(unit)
    for bound, keeps in ((window.since, operator.ge), (window.until, operator.lt)):
        if time is not None and bound is not None:
            text = pa.scalar(named(bound, unit)) if unit else None
            value = text or pa.scalar(bound, pa.int64()).cast(schema.field(time).type)
            wanted.append(keeps(pc.field(time), value))
    if hub is not None and "hub" in schema.names:
        wanted.append(pc.field("hub") == hub)
    return reduce(operator.and_, wanted) if wanted else None


def open_snapshot(location: str | Path | Location, number: int | None = None) -> Snapshot:
    """The snapshot of a round; without a number, of the last completed one. Raises
    `WarehouseUnreadable`, `PipelineError`, and `NoSuchRound` if the round cannot be read."""
    place = location if isinstance(location, Location) else Location(location)
    if number is None:
        return Snapshot(place, last_done(place))
    done = {one.round: one for one in all_rounds(place) if one.state == DONE}
    if number not in done:
        there = f"rounds from {min(done)} to {max(done)}" if done else "no rounds"
        raise NoSuchRound(f"there is no round {number} in {place} that is done; there are {there}")
    snapshot = Snapshot(place, done[number])
    for table in snapshot.lost():
        raise NoSuchRound(
            f"round {number} of {place} cannot be read any more: files of {table} were vacuumed,"
            " or its log is damaged"
        )
    return snapshot
