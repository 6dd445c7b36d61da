"""What the plans of a round share: where they start from, what they change, and how tasks tell."""

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
from hubbub.pipeline.sources.table import FILE, file_batches, files_frame
from hubbub.pipeline.tables.snapshot import DataFile, Snapshot
from hubbub.pipeline.tables.staging import Stage, StagedFile

ANSWER: Final = pa.schema([("answer", pa.string())])
ANSWER_TYPE: Final = "answer string"
Batches = Iterator[pa.RecordBatch]
Said = Callable[[str], None]
Told = TypeVar("Told", bound=msgspec.Struct)
Made = Callable[[pa.Table], Iterable[tuple[str, pa.Table]]]
"""From rows of whole keys to rows of tables, by name."""
_LEAST_ROWS: Final = 10_000
_TASK_ROWS: Final = 250_000
_BROADCAST_ROWS: Final = 2_000_000


class Divided(msgspec.Struct, frozen=True):
    """What a task made of files: those with the rows that stay, and those with the others."""

    replaced: list[str]
    staged: list[StagedFile]


@dataclass
class Work:
    """A round's changes of tables: files that are added, and files that are removed."""

    spark: SparkSession
    base: Snapshot
    """What the round goes on from."""
    name: str
    """Of the round, in the names of the files that its tasks stage."""
    gone: Collection[str]
    """Segments whose rows go."""
    added: dict[str, list[StagedFile]] = field(default_factory=lambda: defaultdict(list))
    removed: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _divided: set[str] = field(default_factory=set)
    """Files whose rows went on into others, and these."""

    @property
    def place(self) -> str:
        return str(self.base.location)

    @property
    def changed(self) -> list[str]:
        """Tables, in an order that is always the same."""
        touched = set(self.added) | {name for name, some in self.removed.items() if some}
        return sorted(touched - set(SCRATCH))

    def add(self, files: Iterable[StagedFile]) -> None:
        for file in files:
            self.added[file.table].append(file)

    def rows_of(self, table: str) -> int:
        """How many rows are added to a table."""
        return sum(file.rows for file in self.added.get(table, ()))

    def files(self, table: str) -> list[DataFile | StagedFile]:
        """Those of a table after the round."""
        kept = [file for file in self.base.files(table) if file.path not in self.removed[table]]
        return [*kept, *self.added.get(table, ())]

    def new(self, table: str, columns: Sequence[str] | None = None) -> DataFrame:
        """What is added to a table."""
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
        """Those that are not of segments that go."""
        return rows.where(~F.col("segment").isin(*self.gone)) if self.gone else rows

    def write(self, rows: DataFrame, table: str) -> list[StagedFile]:
        """Stages rows as they lie in the partitions of the frame: map-only."""
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
        """Files are written again with the rows of them that are kept."""
        if files:
            self.removed[table].update(file.path for file in files)
            self.add(self.write(kept(self.frame(table, files)), table))

    def take_out(self, table: str, hits: DataFrame) -> DataFrame:
        """The rows of some keys; files that hold any are written again without. `hits` has the keys
        and, as `file`, the names of those files."""
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

    def signed(self, table: str) -> DataFrame:
        """The rows that the round adds to a table, and with the `sign` -1 those that it takes away.
        A row of a file that is written again may be both."""
        gone = self.removed[table] - self._divided
        lost = [file for file in self.base.files(table) if file.path in gone]
        came = [file for file in self.added.get(table, ()) if file.path not in self._divided]
        went = self.frame(table, lost)
        if taken := self.added.get(taken_from(table)):
            went = went.unionByName(self.frame(taken_from(table), taken))
        new = self.frame(table, came).withColumn("sign", F.lit(1))
        return new.unionByName(went.withColumn("sign", F.lit(-1)))

    def make(self, rows: DataFrame, count: int, keys: Sequence[str], made: Made) -> None:
        """Stages what `made` gives for the rows of whole keys: each task has all rows of its own.
        There are about `count` rows."""
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
    """Whether each row has one of the keys."""
    places = rows.select(keys.column_names).append_column("_", pa.array(np.arange(len(rows))))
    hits = places.join(keys, keys.column_names, join_type="left semi", use_threads=False)
    found = np.zeros(len(rows), bool)
    found[hits["_"].to_numpy()] = True
    return pa.array(found)


def small(rows: DataFrame, count: int) -> DataFrame:
    """For the smaller side of a join, so that the larger one is not shuffled."""
    return F.broadcast(rows) if count <= _BROADCAST_ROWS else rows


def task_count(spark: SparkSession, rows: int, least: int, most: int) -> int:
    """Two tasks for each core, so that one that takes longer is made up for; fewer where that would
    be fewer than `least` rows a task, more where it would be more than `most`."""
    cores = spark.sparkContext.defaultParallelism
    return max(-(-rows // most), min(2 * cores, -(-rows // least)), 1)


def stage_of(warehouse: str, round_name: str) -> Stage:
    """The stage of the task that calls this; its files are named by task and attempt."""
    context = TaskContext.get()
    assert context is not None
    return Stage(warehouse, f"{round_name}-{context.stageId()}-{context.taskAttemptId()}")


def answered(values: Iterable[msgspec.Struct]) -> Iterator[pa.RecordBatch]:
    """What a task tells the driver, as JSON."""
    lines = [msgspec.json.encode(value).decode() for value in values]
    yield pa.RecordBatch.from_pydict({"answer": lines}, ANSWER)


def answers(frame: DataFrame, kind: type[Told]) -> list[Told]:
    """Runs the plan: what its tasks told."""
    return [msgspec.json.decode(row["answer"], type=kind) for row in frame.collect()]
