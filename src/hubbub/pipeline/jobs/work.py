"""What the plans of a round share: names of staged files, and writing rows inside of a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from hubbub.pipeline.tables.staging import Stage, StagedFile

ANSWER: Final = pa.schema([("answer", pa.string())])
ANSWER_TYPE: Final = "answer string"
Batches = Iterator[pa.RecordBatch]
Said = Callable[[str], None]
Told = TypeVar("Told", bound=msgspec.Struct)


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


def write(rows: DataFrame, warehouse: str, round_name: str, table: str) -> list[StagedFile]:
    """Writes rows as they lie in the partitions of the frame: map-only."""

    def staged(batches: Batches) -> Batches:
        stage = stage_of(warehouse, round_name)
        for batch in batches:
            stage.add(table, pa.Table.from_batches([batch]))
        yield from answered(stage.close())

    return answers(rows.mapInArrow(staged, ANSWER_TYPE), StagedFile)
