"""Makes the tables of models: of each, the partitions whose sources changed.

Spark computes a model whose sources have many rows. Otherwise DuckDB does so in this process, in
less time than Spark takes to plan it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from hubbub.pipeline.catalogue import TABLES, partition_columns
from hubbub.pipeline.columns import HOUR
from hubbub.pipeline.jobs.work import Said, Work
from hubbub.pipeline.models import MODELS, Model, prelude
from hubbub.pipeline.models.evaluating import connected
from hubbub.pipeline.partitions import Span, condition, hours_of, spans
from hubbub.pipeline.sources.table import files_frame
from hubbub.pipeline.tables.snapshot import DataFile
from hubbub.pipeline.tables.staging import Stage, StagedFile

DUCKDB_ROWS: Final = 1_000_000
"""The most rows of a model's sources that DuckDB reads in a round; Spark reads more."""
_Parts = Sequence[Span] | None
"""The partitions to compute, as spans of time; None: all."""


def gold(work: Work, outdated: Collection[str], latest: int | None, said: Said) -> None:
    """Runs after all jobs that change the sources of models. `latest` is the time of the newest
    event, in microseconds since 1970; `said` hears of the models that Spark computes."""
    with contextlib.closing(_Gold(work, latest)) as jobs:
        for model in MODELS.values():
            if model.is_stored:
                jobs.make(model, model.name in outdated, said)


def session_of_models(spark: SparkSession) -> SparkSession:
    """A session with the functions of models, whose names meet no others."""
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", "true")
    session.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    for statement in prelude("spark"):
        session.sql(statement)
    return session


@dataclass(frozen=True)
class _Source:
    """A table that a model reads: the files that may have rows of the partitions, and which rows to
    take from them (SQL)."""

    name: str
    files: Sequence[DataFile | StagedFile]
    where: str


class _Gold:
    def __init__(self, work: Work, latest: int | None) -> None:
        self._work = work
        self._latest = latest
        self._made: dict[str, _Parts] = {}

    def make(self, model: Model, whole: bool, said: Said) -> None:
        parts = None if whole else self._parts(model)
        if parts is not None and not parts:
            return
        self._made[model.name] = parts
        work, name = self._work, model.name
        sources = [self._source(model, each, parts) for each in model.reads]
        old = [file for file in work.base.files(name) if _overlaps(file, model.partition, parts)]
        kept = _Source(name, old, "false")
        if parts is not None:
            where = condition(model.schema, (model.partition,), model.unit, parts)
            kept = _Source(name, [file for file in old if not _within(file, model, parts)],
                           f"NOT ({where})")  # fmt: skip
        rows = sum(file.rows for each in sources for file in each.files)
        engine = self._by_duckdb
        if rows > DUCKDB_ROWS:
            said(name)
            engine = self._by_spark
        found = engine(model, sources, kept, parts)
        work.removed[name].update(file.path for file in old)
        work.added[name] += found

    def close(self) -> None:
        self._connection.close()

    def _parts(self, model: Model) -> _Parts:
        """The partitions whose sources changed."""
        hours: set[int] = set()
        for source in model.reads:
            found = self._touched(model, source)
            if found is None or (found and not model.unit):
                return None
            hours |= found
        return spans(hours, model.unit)

    def _touched(self, model: Model, source: str) -> set[int] | None:
        if source in MODELS:
            parts = self._made.get(source, ())
            return None if parts is None else hours_of(parts)
        if source not in self._work.changed:
            return set()
        return self._work.touched(source, partition_columns(model, source)) if model.unit else None

    def _source(self, model: Model, name: str, parts: _Parts) -> _Source:
        columns = partition_columns(model, name)
        if not model.unit:
            parts = self._recent(model)
        if parts is None:
            return _Source(name, self._work.files(name), "true")
        unit = MODELS[name].unit if name in MODELS else ""
        files = [
            file
            for file in self._work.files(name)
            if any(_overlaps(file, column, parts) for column in columns)
        ]
        return _Source(name, files, condition(TABLES[name].schema, columns, unit, parts))

    def _recent(self, model: Model) -> _Parts:
        if model.recent_hours is None or self._latest is None:
            return None
        until = (self._latest // HOUR + 1) * HOUR
        return [(max(until - model.recent_hours * HOUR, 0), until)]

    # -- DuckDB ---------------------------------------------------------------------------------

    @cached_property
    def _connection(self) -> Any:
        return connected()

    def _by_duckdb(
        self, model: Model, sources: Sequence[_Source], kept: _Source, parts: _Parts
    ) -> list[StagedFile]:
        stage = Stage(self._work.place, f"{self._work.name}-{model.name}")
        for source in sources:
            self._register(source.name, source)
        for rows in self._rows(model, _restricted(model, parts)):
            stage.add(model.name, rows)
        if kept.files:
            self._register("kept_rows", kept)
            for rows in self._rows(model, "SELECT * FROM kept_rows"):
                stage.add(model.name, rows)
        return stage.close()

    def _register(self, name: str, source: _Source) -> None:
        self._connection.register(f"_{name}", self._dataset(source))
        sql = f"SELECT * FROM _{name} WHERE {source.where}"  # noqa: S608, all of it is ours
        self._connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {sql}")

    def _rows(self, model: Model, sql: str) -> Iterator[pa.Table]:
        for batch in self._connection.sql(sql).to_arrow_reader():
            rows = pa.Table.from_batches([batch])
            yield rows.select(model.schema.names).cast(model.schema)

    def _dataset(self, source: _Source) -> Any:
        shape = TABLES[source.name].schema
        if not source.files:
            return shape.empty_table()
        # Without a subtree, Arrow's threads would call Python.
        files, folder = (self._work.base.location / source.name).open()
        names = [file.path for file in source.files]
        native = fs.SubTreeFileSystem(folder, files)
        return ds.dataset(names, schema=shape, format="parquet", filesystem=native)

    # -- Spark ----------------------------------------------------------------------------------

    @cached_property
    def _session(self) -> SparkSession:
        return session_of_models(self._work.spark)

    def _by_spark(
        self, model: Model, sources: Sequence[_Source], kept: _Source, parts: _Parts
    ) -> list[StagedFile]:
        for source in sources:
            self._frame(source).createOrReplaceTempView(source.name)
        rows = _typed(self._session.sql(_restricted(model, parts)), model)
        if kept.files:
            rows = rows.unionByName(self._frame(kept))
        return self._work.write(rows, model.name)

    def _frame(self, source: _Source) -> DataFrame:
        names = [file.path for file in source.files]
        rows = files_frame(self._session, self._work.base.location, source.name, names)
        return rows.where(source.where)


def _restricted(model: Model, parts: _Parts) -> str:
    """A model may read rows of other partitions too; its own rows there are not complete."""
    if parts is None or not model.unit:
        return model.text
    where = condition(model.schema, (model.partition,), model.unit, parts)
    return f"SELECT * FROM (\n{model.text}\n) AS made WHERE {where}"  # noqa: S608


def _typed(rows: DataFrame, model: Model) -> DataFrame:
    shape = from_arrow_schema(model.schema)
    return rows.select(*(F.col(f"`{each.name}`").cast(each.dataType) for each in shape.fields))


def _overlaps(file: DataFile | StagedFile, column: str, parts: _Parts) -> bool:
    if parts is None:
        return True
    if isinstance(file, StagedFile):
        return not hours_of(parts).isdisjoint(file.hours[column])
    return any(file.overlaps(*span, column) for span in parts)


def _within(file: DataFile, model: Model, parts: Sequence[Span]) -> bool:
    """Whether all rows of a file are in partitions that are computed again."""
    found: Mapping[str, Span] = file.bounds
    known = found.get(model.partition)
    return known is not None and any(
        since <= known[0] and known[1] < until for since, until in parts
    )
