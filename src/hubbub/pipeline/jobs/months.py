"""Totals by month of keys of which facts, sessions or answers changed; the others stay."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from hubbub.pipeline.catalogue import TABLES
from hubbub.pipeline.jobs.work import Work, small
from hubbub.pipeline.tables.snapshot import DataFile, Snapshot
from hubbub.pipeline.tables.staging import StagedFile
from hubbub.pipeline.transforms.months import TOTALS, Part, Totals

_WHICH: Final = ["totals", "month", "key"]
"""The table, the month and the number of a key. Keys with one number are made again together."""
_SHARD_ROWS: Final = 500_000
_SHARD_KEYS: Final = 20_000
Span = tuple[int, int]
"""From one moment on, before another; microseconds since 1970."""


def lacking(base: Snapshot) -> bool:
    """Whether totals were never made, as by a version of before."""
    known = base.round.versions if base.round else {}
    return not all(each.table in known for each in TOTALS)


def months(work: Work) -> None:
    """Comes after all plans that change what totals are made of."""
    if lacking(work.base):
        for each in TOTALS:
            work.added[each.table] = []
        _make(work, _parts(work), 1 + _rows_of_parts(work) // _SHARD_ROWS)
        return
    changed = _changed(work)
    if changed is None:
        return
    changed.persist()
    found = changed.groupBy(
        F.unix_micros("month").alias("since"),
        F.expr("unix_micros(month + INTERVAL 1 MONTH)").alias("until"),
    ).count()
    counts = {(row["since"], row["until"]): row["count"] for row in found.collect()}
    if counts:
        keys, spans = sum(counts.values()), sorted(counts)
        touched = small(changed, keys)
        for each in TOTALS:
            _keep_others(work, each, touched, spans)
        again = _parts(work, spans).join(touched, _WHICH, "left_semi")
        _make(work, again, 1 + keys // _SHARD_KEYS)
    changed.unpersist()


def _changed(work: Work) -> DataFrame | None:
    """The keys whose rows before and after the round are not the same: unchanged rows of files that
    were written again cancel each other in sums of hashes."""
    signed = [
        _hashed(_rows(work, totals, part, files), sign)
        for totals, part in _each_part()
        for files, sign in ((work.added.get(part.table, ()), 1), (work.lost(part.table), -1))
        if files
    ]
    if not signed:
        return None
    sums = reduce(DataFrame.unionByName, signed).groupBy(*_WHICH)
    found = sums.agg(F.sum("high").alias("high"), F.sum("low").alias("low"))
    return found.where("high != 0 OR low != 0").select(*_WHICH)


def _hashed(rows: DataFrame, sign: int) -> DataFrame:
    # Nulls leave a hash as it is, so it is also told where they are.
    nulls = F.array(*(F.col(name).isNull() for name in rows.columns))
    number = F.xxhash64(*rows.columns, nulls)
    high, low = F.shiftright(number, 32), number.bitwiseAND(F.lit(2**32 - 1))
    return rows.select(*_WHICH, (high * sign).alias("high"), (low * sign).alias("low"))


def _keep_others(work: Work, totals: Totals, touched: DataFrame, spans: Sequence[Span]) -> None:
    """Files with months that changed are written again without the keys that did."""
    files = [file for file in work.base.files(totals.table) if _overlaps(file, spans)]
    if files:
        rows = _named(work.frame(totals.table, files), totals)
        kept = rows.join(touched, _WHICH, "left_anti")
        work.replace(totals.table, files, kept.select(*TABLES[totals.table].schema.names))


def _parts(work: Work, spans: Sequence[Span] = ()) -> DataFrame:
    """All parts as they are after the round, of some months or of all."""
    found = []
    for totals, part in _each_part():
        files: Iterable[DataFile | StagedFile] = work.files(part.table)
        if part.time == TABLES[part.table].time:
            files = [file for file in files if _overlaps(file, spans)]
        found.append(_rows(work, totals, part, files, spans))
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), found)


def _rows(
    work: Work,
    totals: Totals,
    part: Part,
    files: Iterable[DataFile | StagedFile],
    spans: Sequence[Span] = (),
) -> DataFrame:
    rows = work.frame(part.table, files).where(part.where)
    if spans:
        rows = rows.where(reduce(Column.__or__, (_within(part.time, span) for span in spans)))
    month = f"date_trunc('MONTH', {part.time}) AS month"
    return _named(rows.selectExpr(month, *part.columns), totals)


def _named(rows: DataFrame, totals: Totals) -> DataFrame:
    key = F.xxhash64(*totals.key).alias("key")
    return rows.select(F.lit(totals.table).alias("totals"), key, *rows.columns)


def _within(time: str, span: Span) -> Column:
    since, until = (F.timestamp_micros(F.lit(moment)) for moment in span)
    return (F.col(time) >= since) & (F.col(time) < until)


def _overlaps(file: DataFile | StagedFile, spans: Sequence[Span]) -> bool:
    """A file without statistics may hold anything."""
    if not spans or isinstance(file, StagedFile) or file.since is None or file.last is None:
        return True
    return any(file.since < until and file.last >= since for since, until in spans)


def _make(work: Work, parts: DataFrame, shards: int) -> None:
    def made(rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
        for each in TOTALS:
            ours = rows.filter(pa.compute.equal(rows["totals"], each.table))
            if len(ours):
                ours = ours.select(each.shape.names).cast(each.shape)
                yield each.table, each.compute(ours)

    work.make(parts, F.col("key"), shards, made)


def _rows_of_parts(work: Work) -> int:
    return sum(file.rows for _, part in _each_part() for file in work.files(part.table))


def _each_part() -> Iterator[tuple[Totals, Part]]:
    return ((totals, part) for totals in TOTALS for part in totals.parts)
