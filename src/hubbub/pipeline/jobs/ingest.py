"""Ingestion: converts events to silver rows and facts, in one map-only Spark job over the segments
of a round.

Spark distributes parts of segments and retries failures. Tasks read with Arrow, since they need
nearly all columns as Arrow: through Spark's own reader, rows would pass the JVM one by one, at ten
times the cost.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from hubbub.domain.journal import NODE_STARTED
from hubbub.pipeline.columns import with_columns
from hubbub.pipeline.jobs.work import ANSWER_TYPE, Batches, answered, answers, stage_of, task_count
from hubbub.pipeline.sources.journal import Split, read_split
from hubbub.pipeline.tables.staging import Stage, StagedFile
from hubbub.pipeline.transforms import facts, silver
from hubbub.pipeline.transforms.events import summed_hashes, verdict
from hubbub.pipeline.transforms.quarantine import unfit_records

_AT_ONCE_BYTES: Final = 256 * 2**20
"""Events of one segment whose facts are computed together."""
_TASK_ROWS: Final = 400_000
_LEAST_ROWS: Final = 50_000
"""A task with fewer events costs more to start than to run."""
_TABLES: Final = tuple(silver.KINDS)


class PartSummary(msgspec.Struct, frozen=True):
    """A task's findings in its part of a segment. Times are microseconds since 1970."""

    segment: str
    rows: int
    earliest: int | None
    latest: int | None
    hashes: int
    """The sum of the hashes of all events."""
    kinds: dict[str, int]
    unfit: dict[str, int]
    late: int = 0
    nodes: dict[str, int] = {}
    """The time of each node's latest event."""
    starts: dict[str, list[int]] = {}
    """The start times of nodes."""

    @property
    def fingerprint(self) -> str:
        """Equal for the same events, regardless of the segment's name and packing; empty without
        events."""
        return f"{self.rows}-{self.hashes:016x}" if self.rows else ""

    def __add__(self, other: PartSummary) -> PartSummary:
        """Merges two parts of one segment."""
        both = [self.earliest, other.earliest, self.latest, other.latest]
        moments = [each for each in both if each is not None]
        return PartSummary(
            segment=self.segment,
            rows=self.rows + other.rows,
            earliest=min(moments, default=None),
            latest=max(moments, default=None),
            hashes=(self.hashes + other.hashes) % 2**64,
            kinds=dict(Counter(self.kinds) + Counter(other.kinds)),
            unfit=dict(Counter(self.unfit) + Counter(other.unfit)),
            late=self.late + other.late,
            nodes=dict(Counter(self.nodes) | Counter(other.nodes)),
            starts={
                node: self.starts.get(node, []) + other.starts.get(node, [])
                for node in self.starts.keys() | other.starts.keys()
            },
        )


class TaskResult(msgspec.Struct, frozen=True):
    """The result of one task."""

    files: list[StagedFile]
    summaries: list[PartSummary]
    splits: list[Split]


class IngestRules(msgspec.Struct, frozen=True):
    """Parameters shared by all tasks of the job."""

    warehouse: str
    round_name: str
    limits: Mapping[str, int]
    """By segment, the latest plausible time of events."""
    seen_hours: Mapping[str, str]
    repeats: Mapping[str, Sequence[int]]
    """By segment, the offsets of duplicate messages to skip."""
    reached: int
    """The hour that earlier rounds have reached, in microseconds: earlier events are late."""


def ingest(spark: SparkSession, splits: Sequence[Split], rules: IngestRules) -> list[TaskResult]:
    """Returns one answer per task."""
    rows = sum(split.rows for split in splits)
    tasks = shared_out(splits, task_count(spark, rows, _LEAST_ROWS, _TASK_ROWS))

    def work(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield from answered([_ingest(tasks[number], rules)])

    job = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(work, ANSWER_TYPE)
    return answers(job, TaskResult)


def shared_out(splits: Sequence[Split], count: int) -> list[list[Split]]:
    """Distributes neighbouring splits over tasks, with about equally many events each."""
    total = sum(split.rows for split in splits)
    tasks: dict[int, list[Split]] = {}
    before = 0
    for split in splits:
        middle = before + split.rows // 2
        tasks.setdefault(middle * count // max(total, 1), []).append(split)
        before += split.rows
    return list(tasks.values())


def _ingest(splits: list[Split], rules: IngestRules) -> TaskResult:
    stage = stage_of(rules.warehouse, rules.round_name)
    summaries = [_ingest_rows(stage, name, rows, rules) for name, rows in _by_segment(splits)]
    return TaskResult(stage.close(), summaries, splits)


def _by_segment(splits: Iterable[Split]) -> Iterator[tuple[str, pa.Table]]:
    """Groups neighbouring rows of one segment, up to a memory limit."""
    name, size = "", 0
    waiting: list[pa.Table] = []
    for split in splits:
        rows = read_split(split)
        if waiting and (split.segment != name or size > _AT_ONCE_BYTES):
            yield name, pa.concat_tables(waiting)
            waiting, size = [], 0
        name = split.segment
        waiting.append(rows)
        size += rows.nbytes
    if waiting:
        yield name, pa.concat_tables(waiting)


def _ingest_rows(stage: Stage, name: str, rows: pa.Table, rules: IngestRules) -> PartSummary:
    reasons = verdict(rows, rules.limits[name])
    fit = rows
    if reasons is not None:
        unfit = rows.filter(pc.is_valid(reasons))
        stage.add("quarantine", unfit_records(unfit, reasons.drop_null(), rules.seen_hours[name]))
        fit = rows.filter(pc.is_null(reasons))
    tables = {table: silver.rows_of(table, fit) for table in _TABLES}
    if gone := rules.repeats.get(name):
        messages = tables["messages"]
        repeated = pc.is_in(messages["offset"], pa.array(gone, pa.int64()))
        tables["messages"] = messages.filter(pc.invert(repeated))
    for table, found in (*tables.items(), *_derived(tables, fit)):
        if "segment" not in found.column_names:
            found = with_columns(found, segment=pa.repeat(name, len(found)))
        stage.add(table, found)
    times = pc.min_max(fit["at"])
    return PartSummary(
        segment=name,
        rows=len(rows),
        earliest=times["min"].as_py(),
        latest=times["max"].as_py(),
        hashes=summed_hashes(rows),
        kinds=_counts(fit["kind"]),
        unfit={} if reasons is None else _counts(reasons.drop_null()),
        late=pc.sum(pc.less(fit["at"], rules.reached)).as_py() or 0,
        **_nodes(fit),
    )


def _nodes(events: pa.Table) -> dict[str, Any]:
    """The time of each node's latest event, and its start times."""
    named = events.filter(pc.is_valid(events["node"])).select(["node", "at", "kind"])
    latest = named.group_by("node", use_threads=False).aggregate([("at", "max")])
    started = named.filter(pc.equal(named["kind"], NODE_STARTED))
    starts: dict[str, list[int]] = defaultdict(list)
    for row in started.to_pylist():
        starts[row["node"]].append(row["at"])
    pairs = zip(latest["node"].to_pylist(), latest["at_max"].to_pylist(), strict=True)
    return {"nodes": dict(pairs), "starts": dict(starts)}


def _derived(tables: Mapping[str, pa.Table], events: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    yield "_links", silver.links(tables["messages"])
    yield "term_facts", facts.term_facts(tables["messages"])
    yield "document_facts", facts.document_facts(events)
    yield "notification_facts", facts.notification_facts(events)
    yield "push_facts", facts.push_facts(events)


def _counts(words: pa.Array | pa.ChunkedArray) -> dict[str, int]:
    return {row["values"]: row["counts"] for row in words.value_counts().to_pylist()}
