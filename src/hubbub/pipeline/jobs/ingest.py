"""From events to silver and facts: one map-only plan over the segments of a round."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from hubbub.pipeline.jobs.work import ANSWER_TYPE, Batches, answered, answers, stage_of
from hubbub.pipeline.sources.journal import SEGMENT, events
from hubbub.pipeline.tables.staging import Stage, StagedFile
from hubbub.pipeline.transforms import facts, silver
from hubbub.pipeline.transforms.events import EVENTS, IDENTITY, verdict
from hubbub.pipeline.transforms.quarantine import unfit_records
from hubbub.pipeline.views.columns import with_columns

_FINGERPRINT: Final = "fingerprint"
_AT_ONCE_BYTES: Final = 256 * 2**20
"""Events of one segment whose facts are summed at once."""
_TABLES: Final = tuple(silver.KINDS)


class Summary(msgspec.Struct, frozen=True):
    """What a task found in its part of a segment. Times are microseconds since 1970."""

    segment: str
    rows: int
    earliest: int | None
    latest: int | None
    fingerprint: int
    """The sum of the hashes of the events, modulo 2**64: the same however they are packed."""
    kinds: dict[str, int]
    unfit: dict[str, int]
    late: int = 0


class Answer(msgspec.Struct, frozen=True):
    files: list[StagedFile]
    summaries: list[Summary]


class Task(msgspec.Struct, frozen=True):
    """What all tasks of the plan know."""

    warehouse: str
    round_name: str
    limits: Mapping[str, int]
    """The latest time that is believed of the events of each segment."""
    seen_hours: Mapping[str, str]
    repeats: Mapping[str, Sequence[int]]
    """By segment, the offsets of messages that do not count."""
    reached: int
    """The hour that earlier rounds have reached, in microseconds: events before it are late."""


def ingest(spark: SparkSession, files: Sequence[str], task: Task) -> Answer:
    frame = events(spark, files, EVENTS.names)
    frame = frame.withColumn(_FINGERPRINT, F.xxhash64(*IDENTITY))

    def work(batches: Batches) -> Batches:
        yield from answered([_ingest(batches, task)])

    found = answers(frame.mapInArrow(work, ANSWER_TYPE))
    parts = [msgspec.json.decode(line, type=Answer) for line in found]
    return Answer(
        [file for part in parts for file in part.files],
        [one for part in parts for one in part.summaries],
    )


def _ingest(batches: Batches, task: Task) -> Answer:
    stage = stage_of(task.warehouse, task.round_name)
    summaries = [_ingest_segment(stage, name, rows, task) for name, rows in _by_segment(batches)]
    return Answer(stage.close(), summaries)


def _by_segment(batches: Batches) -> Iterator[tuple[str, pa.Table]]:
    """Neighbouring rows of one segment together, up to a bound in memory."""
    name, size = "", 0
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        for segment, part in _parts(batch):
            if waiting and (segment != name or size > _AT_ONCE_BYTES):
                yield name, pa.Table.from_batches(waiting)
                waiting, size = [], 0
            name = segment
            waiting.append(part)
            size += part.nbytes
    if waiting:
        yield name, pa.Table.from_batches(waiting)


def _parts(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    codes = batch.column(SEGMENT).dictionary_encode()
    ids = codes.indices.to_numpy()
    bounds = [0, *(np.flatnonzero(np.diff(ids)) + 1).tolist(), len(ids)]
    for start, end in itertools.pairwise(bounds):
        if end > start:
            yield codes.dictionary[int(ids[start])].as_py(), batch.slice(start, end - start)


def _ingest_segment(stage: Stage, name: str, rows: pa.Table, task: Task) -> Summary:
    hashes = rows[_FINGERPRINT].to_numpy().view(np.uint64)
    reasons = verdict(rows, task.limits[name])
    fit, unfit = rows, rows.slice(0, 0)
    if reasons is not None:
        unfit = rows.filter(pc.is_valid(reasons))
        stage.add("quarantine", unfit_records(unfit, reasons.drop_null(), task.seen_hours[name]))
        fit = rows.filter(pc.is_null(reasons))
    tables = {table: silver.rows_of(table, fit) for table in _TABLES}
    if gone := task.repeats.get(name):
        messages = tables["messages"]
        repeated = pc.is_in(messages["offset"], pa.array(gone, pa.int64()))
        tables["messages"] = messages.filter(pc.invert(repeated))
    for table, found in (*tables.items(), *_derived(tables)):
        if "segment" not in found.column_names:
            found = with_columns(found, segment=pa.repeat(name, len(found)))
        stage.add(table, found)
    times = pc.min_max(fit["at"])
    return Summary(
        segment=name,
        rows=len(rows),
        earliest=times["min"].as_py(),
        latest=times["max"].as_py(),
        fingerprint=int(np.add.reduce(hashes, dtype=np.uint64)),
        kinds=_counts(fit["kind"]),
        unfit={} if reasons is None else _counts(reasons.drop_null()),
        late=pc.sum(pc.less(fit["at"], task.reached)).as_py() or 0,
    )


def _derived(tables: Mapping[str, pa.Table]) -> Iterator[tuple[str, pa.Table]]:
    messages, attempts = tables["messages"], tables["attempts"]
    yield "_links", silver.links(messages)
    yield "publish_facts", facts.publish_facts(messages)
    yield "delivery_facts", facts.delivery_facts(tables["deliveries"], attempts)
    yield "peer_facts", facts.peer_facts(messages, attempts)
    yield "term_facts", facts.term_facts(messages)
    yield "sequence_facts", facts.sequence_facts(messages, tables["receipts"], tables["drops"])


def _counts(words: pa.Array | pa.ChunkedArray) -> dict[str, int]:
    return dict(Counter({row["values"]: row["counts"] for row in words.value_counts().to_pylist()}))
