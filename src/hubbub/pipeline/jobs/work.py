"""State shared by the jobs of a round: its base, its changes, and the results of its tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hubbub.pipeline.catalogue import SCRATCH, TABLES, taken_from
from hubbub.pipeline.columns import HOUR
from hubbub.pipeline.sources.table import FILE, file_batches, files_frame
from hubbub.pipeline.tables.snapshot import DataFile, Snapshot
from hubbub.pipeline.tables.staging import Stage, StagedFile

ANSWER: Final = pa.schema([("answer", pa.string())])
ANSWER_TYPE: Final = "answer string"
Batches = Iterator[pa.RecordBatch]
Said = Callable[[str], None]
Told = TypeVar("Told", bound=msgspec.Struct)
Made = Callable[[pa.Table], Iterable[tuple[str, pa.Table]]]
"""Converts the rows of whole keys to rows of tables, by table name."""
_LEAST_ROWS: Final = 10_000
_TASK_ROWS: Final = 250_000
_BROADCAST_ROWS: Final = 2_000_000


class Divided(msgspec.Struct, frozen=True):
    """A task's rewritten files: those with the remaining rows, and those with the removed rows."""

    replaced: list[str]
    staged: list[StagedFile]


@dataclass
class Work:
    """A round's changes of tables: added and removed files."""

    spark: SparkSession
    base: Snapshot
    """The snapshot on which the round is based."""
    name: str
    """The round's name, part of the names of its staged files."""
    gone: Collection[str]
    """Segments whose rows are removed."""
    added: dict[str, list[StagedFile]] = field(default_factory=lambda: defaultdict(list))
    removed: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _divided: set[str] = field(default_factory=set)
    """Files whose rows moved to other files, and those files."""

    @property
    def place(self) -> str:
        return str(self.base.location)

    @property
    def changed(self) -> list[str]:
        """Changed tables in a deterministic order."""
        touched = set(self.added) | {name for name, some in self.removed.items() if some}
        return sorted(touched - set(SCRATCH))

    def add(self, files: Iterable[StagedFile]) -> None:
        for file in files:
            self.added[file.table].append(file)

    def rows_of(self, table: str) -> int:
        """How many rows the round adds to a table."""
        return sum(file.rows for file in self.added.get(table, ()))

    def files(self, table: str) -> list[DataFile | StagedFile]:
        """The files of a table after the round."""
        kept = [file for file in self.base.files(table) if file.path not in self.removed[table]]
        return [*kept, *self.added.get(table, ())]

    def new(self, table: str, columns: Sequence[str] | None = None) -> DataFrame:
        """The rows added to a table."""
        return self.frame(table, self.added.get(table, ()), columns)

    def frame(
        self,
        table: str,
        files: Iterable[StagedFile | DataFile],
        columns: Sequence[str] | None = None,
        with_file: bool = False,
    ) -> DataFrame:
        paths = [file.path for file in files]
        return files_frame(self.spark, self.base.location, table, paths, columns, with_file)

    def staying(self, rows: DataFrame) -> DataFrame:
        """The rows except those of removed segments."""
        return rows.where(~F.col("segment").isin(*self.gone)) if self.gone else rows

    def write(self, rows: DataFrame, table: str) -> list[StagedFile]:
        """Stages rows in the frame's partitioning, without a shuffle."""
        place, name = self.place, self.name

        def staged(batches: Batches) -> Batches:
            stage = stage_of(place, name)
            for batch in batches:
                stage.add(table, pa.Table.from_batches([batch]))
            yield from answered(stage.close())

        return answers(rows.mapInArrow(staged, ANSWER_TYPE), StagedFile)

    def keep(
        self, table: str, files: Sequence[DataFile], kept: Callable[[DataFrame], DataFrame]
    ) -> None:
        """Rewrites files with only the rows that `kept` selects."""
        if files:
            self.removed[table].update(file.path for file in files)
            self.add(self.write(kept(self.frame(table, files)), table))

    def take_out(self, table: str, hits: DataFrame) -> DataFrame:
        """Removes and returns the rows of some keys; files that contain any are rewritten. `hits`
        has the keys and, as `file`, the names of those files."""
        place, name, names = self.place, self.name, [each for each in hits.columns if each != FILE]

        def divided(batches: Batches) -> Batches:
            stage, some = stage_of(place, name), list(batches)
            hits = pa.Table.from_batches(some) if some else pa.table({FILE: pa.array([], "string")})
            files = hits[FILE].unique().to_pylist()
            for file in files:
                keys = hits.filter(pc.equal(hits[FILE], file)).select(names)
                for batch in file_batches(f"{place}/{table}", file, TABLES[table].schema):
                    rows = pa.Table.from_batches([batch])
                    taken = _among(rows, keys)
                    stage.add(table, rows.filter(pc.invert(taken)))
                    stage.add(taken_from(table), rows.filter(taken))
            yield from answered([Divided(files, stage.close())])

        count = sum(file.rows for file in self.base.files(table))
        parts = hits.repartition(task_count(self.spark, count, _LEAST_ROWS, _TASK_ROWS), FILE)
        for one in answers(parts.mapInArrow(divided, ANSWER_TYPE), Divided):
            self.add(one.staged)
            self.removed[table].update(one.replaced)
            kept = [file.path for file in one.staged if file.table == table]
            self._divided.update(one.replaced, kept)
        return self.new(taken_from(table))

    def touched(self, table: str, columns: Iterable[str]) -> set[int] | None:
        """The hours of rows that the round adds to a table or removes, by these columns; None: any.
        Rows that moved to another file do not count."""
        gone = self.removed[table] - self._divided
        came = [file for file in self.added.get(table, ()) if file.path not in self._divided]
        staged = [*came, *self.added.get(taken_from(table), ())]
        found: set[int] = set()
        for name in columns:
            for file in staged:
                found.update(file.hours[name])
            for lost in (file for file in self.base.files(table) if file.path in gone):
                if name not in lost.bounds:
                    return None
                since, last = lost.bounds[name]
                found.update(range(since // HOUR, last // HOUR + 1))
        return found

    def make(self, rows: DataFrame, count: int, keys: Sequence[str], made: Made) -> None:
        """Stages the result of `made` for the rows of whole keys: all rows of a key are in the same
        task. `count` is the approximate number of rows."""
        place, name = self.place, self.name

        def staged(batches: Batches) -> Batches:
            stage = stage_of(place, name)
            if some := list(batches):
                for table, found in made(pa.Table.from_batches(some)):
                    stage.add(table, found)
            yield from answered(stage.close())

        together = rows.repartition(task_count(self.spark, count, _LEAST_ROWS, _TASK_ROWS), *keys)
        self.add(answers(together.mapInArrow(staged, ANSWER_TYPE), StagedFile))


def _among(rows: pa.Table, keys: pa.Table) -> pa.Array:
    """Marks the rows that have one of the keys."""
    places = rows.select(keys.column_names).append_column("_", pa.array(np.arange(len(rows))))
    hits = places.join(keys, keys.column_names, join_type="left semi", use_threads=False)
    found = np.zeros(len(rows), bool)
    found[hits["_"].to_numpy()] = True
    return pa.array(found)


def small(rows: DataFrame, count: int) -> DataFrame:
    """Marks the smaller side of a join for broadcasting, so that the larger one is not shuffled."""
    return F.broadcast(rows) if count <= _BROADCAST_ROWS else rows


def task_count(spark: SparkSession, rows: int, least: int, most: int) -> int:
    """Two tasks per core, to balance uneven tasks; fewer if tasks would have less than `least`
    rows, more if they would have more than `most`."""
    cores = spark.sparkContext.defaultParallelism
    return max(-(-rows // most), min(2 * cores, -(-rows // least)), 1)


def stage_of(warehouse: str, round_name: str) -> Stage:
    """The stage of the calling task; its files are named after task and attempt."""
    context = TaskContext.get()
    assert context is not None
    return Stage(warehouse, f"{round_name}-{context.stageId()}-{context.taskAttemptId()}")


def answered(values: Iterable[msgspec.Struct]) -> Iterator[pa.RecordBatch]:
    """Encodes a task's results for the driver as JSON."""
    lines = [msgspec.json.encode(value).decode() for value in values]
    yield pa.RecordBatch.from_pydict({"answer": lines}, ANSWER)


def answers(frame: DataFrame, kind: type[Told]) -> list[Told]:
    """Runs the Spark job and returns the results of its tasks."""
    return [msgspec.json.decode(row["answer"], type=kind) for row in frame.collect()]
