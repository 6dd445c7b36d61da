"""A consistent snapshot of all tables, for readers. Needs neither Spark nor Java.

Readers never list folders: the last completed round names the version of every table.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, reduce
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyarrow import fs

from hubbub.domain.errors import NotFound
from hubbub.pipeline.catalogue import TABLES
from hubbub.pipeline.columns import DAY, HOUR
from hubbub.pipeline.errors import NoSuchRound, WarehouseUnreadable, in_one_line
from hubbub.pipeline.tables.capacity import read_capacity
from hubbub.pipeline.tables.location import Location
from hubbub.pipeline.tables.rounds import DONE, Round, all_rounds, last_done
from hubbub.pipeline.views import VIEWS
from hubbub.pipeline.views.forecast import make_view
from hubbub.pipeline.views.view import View

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS: Final = {"hour": HOUR, "day": DAY}


@dataclass(frozen=True)
class Window:
    """A time range in microseconds since 1970: `since` inclusive, `until` exclusive; None:
    unbounded."""

    since: int | None = None
    until: int | None = None

    def widened(self, unit: int) -> Window:
        """Extends the range to whole hours or days."""
        since = None if self.since is None else self.since - self.since % unit
        until = None if self.until is None else self.until + -self.until % unit
        return Window(since, until)


@dataclass(frozen=True)
class DataFile:
    """A file of a table, with the bounds of its times and segments."""

    path: str
    size: int
    rows: int
    since: int | None
    """Microseconds since 1970."""
    last: int | None
    first_segment: str
    last_segment: str

    def overlaps(self, since: int, until: int) -> bool:
        """Whether it may contain rows of the time range; a file without statistics always may."""
        if self.since is None or self.last is None:
            return True
        return self.since < until and self.last >= since

    def may_hold(self, segments: Iterable[str]) -> bool:
        """Whether it may contain rows of the segments; a file without statistics always may."""
        return not self.last_segment or any(
            self.first_segment <= name <= self.last_segment for name in segments
        )


class Snapshot:
    """Tables and views as of `round`; None if the pipeline never ran, and all are empty."""

    names: Final = (*TABLES, *VIEWS)

    def __init__(self, location: Location, last: Round | None) -> None:
        self.location = location
        self.round = last
        self._read: dict[tuple[str, Window], pa.Table] = {}
        self.files = cache(self._files)
        """The files of a materialised table by name, cached."""

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
        time = TABLES[name].time or ""
        return [
            DataFile(
                row["path"],
                row["size_bytes"],
                row["num_records"] or 0,
                micros(row.get(f"min.{time}")),
                micros(row.get(f"max.{time}")),
                row.get("min.segment") or "",
                row.get("max.segment") or "",
            )
            for row in pa.table(delta.get_add_actions(flatten=True)).to_pylist()
        ]

    def lost(self) -> Iterator[str]:
        """The tables with missing files, or without the log of the snapshot's version."""
        for name in self.round.versions if self.round else ():
            files, folder = (self.location / name).open()
            infos = files.get_file_info(fs.FileSelector(folder, allow_not_found=True))
            there = {info.base_name for info in infos}
            try:
                if not there.issuperset(file.path for file in self.files(name)):
                    yield name
            except WarehouseUnreadable:
                yield name

    def table(self, name: str) -> ds.Dataset:
        """Opens a materialised table. Raises `NotFound` for any other name."""
        if name not in TABLES:
            raise NotFound(f"there is no table {name!r}; there are {', '.join(TABLES)}")
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
        """Rows of a table or a view. `since` and `until`, in microseconds since 1970, filter a
        table by its time column; for a view they limit the sources to whole hours or days. Raises
        `NotFound`, `WarehouseUnreadable`."""
        if name not in VIEWS:
            return self._rows(name, Window(since, until), columns, hub)
        rows = self._view(VIEWS[name], Window(since, until))
        rows = rows if hub is None else rows.filter(pc.equal(rows["hub"], hub))
        return rows if columns is None else rows.select(list(columns))

    def _view(self, view: View, window: Window) -> pa.Table:
        unit = _UNITS.get(view.reach)
        window = window.widened(unit) if unit else Window()
        if view.recent_hours is not None:
            window = self._recent(view.recent_hours)
        known = self._read.get((view.name, window))
        if known is None:
            sources = {
                name: self._view(VIEWS[name], window)
                if name in VIEWS
                else self._rows(name, window, columns)
                for name, columns in view.sources.items()
            }
            if view.name == "forecast":
                view = make_view(read_capacity(self.location))
            known = self._read[view.name, window] = view.evaluate(sources)
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


def micros(time: datetime | None) -> int | None:
    """Microseconds since 1970. A time without an offset is in UTC."""
    if time is None:
        return None
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)


def row_filter(
    schema: pa.Schema, time: str | None, window: Window, hub: str | None
) -> pc.Expression | None:
    """None if all rows are selected. `time` names the time column."""
    wanted = []
    for bound, keeps in ((window.since, operator.ge), (window.until, operator.lt)):
        if time is not None and bound is not None:
            value = pa.scalar(bound, pa.int64()).cast(schema.field(time).type)
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
