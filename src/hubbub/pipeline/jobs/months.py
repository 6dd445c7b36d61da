"""Recomputes monthly totals of keys whose facts, sessions or replies changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial, reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hubbub.pipeline.catalogue import TABLES
from hubbub.pipeline.jobs.work import Work, small
from hubbub.pipeline.tables.snapshot import DataFile, Snapshot
from hubbub.pipeline.tables.staging import StagedFile
from hubbub.pipeline.transforms.months import TOTALS, MonthSource, Totals

_WHICH: Final = ["totals", "month", "key"]
"""The table, the month and the hash of a key. Keys with the same hash are recomputed together."""
_ROWS_OF_A_KEY: Final = 20
"""The estimated number of rows per key and month."""
Span = tuple[int, int]
"""A time interval in microseconds since 1970: start inclusive, end exclusive."""


def lacking(base: Snapshot) -> bool:
    """Whether totals are missing, as in warehouses of an earlier version."""
    known = base.round.versions if base.round else {}
    return not all(each.table in known for each in TOTALS)


def months(work: Work) -> None:
    """Runs after all jobs that change the sources of totals."""
    parts = [(totals, part) for totals in TOTALS for part in totals.parts]
    if lacking(work.base):
        work.added.update({each.table: [] for each in TOTALS})
        rows = sum(file.rows for _, part in parts for file in work.files(part.table))
        work.make(_together(_rows(work, *each) for each in parts), rows, ("key",), _made)
        return
    touched = [each for each in parts if each[1].table in work.changed]
    if not touched:
        return
    signed = (_selected(work.signed(part.table), totals, part, "sign") for totals, part in touched)
    changed = _changed(_together(signed)).persist()
    until = F.expr("unix_micros(month + INTERVAL 1 MONTH)")
    found = changed.groupBy(F.unix_micros("month"), until).count().collect()
    if found:
        keys, spans = sum(row[2] for row in found), [(row[0], row[1]) for row in found]
        which = small(changed, keys)
        for totals in TOTALS:
            files = [file for file in work.base.files(totals.table) if _overlaps(file, spans)]
            work.keep(totals.table, files, partial(_others, totals, which))
        again = _together(_rows(work, *each, spans) for each in parts)
        again = again.join(which, _WHICH, "left_semi")
        work.make(again, keys * _ROWS_OF_A_KEY, ("key",), _made)
    changed.unpersist()


def _changed(signed: DataFrame) -> DataFrame:
    """The keys whose rows before and after the round differ. Unchanged rows of rewritten files
    cancel out in sums of hashes, which are computed in halves to avoid overflow."""
    columns = [name for name in signed.columns if name != "sign"]
    nulls = F.array(*(F.col(name).isNull() for name in columns))  # which a hash passes over
    number = F.xxhash64(*columns, nulls)
    halves = F.shiftright(number, 32), number.bitwiseAND(F.lit(2**32 - 1))
    high, low = (F.sum(half * F.col("sign")) != 0 for half in halves)
    found = signed.groupBy(*_WHICH).agg((high | low).alias("differs"))
    return found.where("differs").select(*_WHICH)


def _rows(work: Work, totals: Totals, part: MonthSource, spans: Sequence[Span] = ()) -> DataFrame:
    """The rows after the round, of some months or of all."""
    files = work.files(part.table)
    if part.time == TABLES[part.table].time:
        files = [file for file in files if _overlaps(file, spans)]
    rows = work.frame(part.table, files)
    if spans:
        within = "({0} >= timestamp_micros({1}) AND {0} < timestamp_micros({2}))"
        rows = rows.where(" OR ".join(within.format(part.time, *span) for span in spans))
    return _selected(rows, totals, part)


def _selected(rows: DataFrame, totals: Totals, part: MonthSource, *more: str) -> DataFrame:
    columns = ", ".join((f"date_trunc('MONTH', {part.time}) AS month", part.columns, *more))
    sql = f"SELECT {columns} FROM {{rows}} WHERE {part.where}"  # noqa: S608, all of it is ours
    return _named(rows.sparkSession.sql(sql, rows=rows), totals)


def _named(rows: DataFrame, totals: Totals) -> DataFrame:
    return rows.withColumns({"totals": F.lit(totals.table), "key": F.xxhash64(*totals.key)})


def _together(frames: Iterable[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)


def _overlaps(file: DataFile | StagedFile, spans: Sequence[Span]) -> bool:
    """Whether the file may hold rows of the intervals; staged files have no statistics and always
    may."""
    return not spans or isinstance(file, StagedFile) or any(file.overlaps(*span) for span in spans)


def _others(totals: Totals, which: DataFrame, rows: DataFrame) -> DataFrame:
    """The rows of unchanged keys."""
    kept = _named(rows, totals).join(which, _WHICH, "left_anti")
    return kept.select(*TABLES[totals.table].schema.names)


def _made(rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    for each in TOTALS:
        ours = rows.filter(pc.equal(rows["totals"], each.table))
        if len(ours):
            yield each.table, each.compute(ours.select(each.shape.names).cast(each.shape))
