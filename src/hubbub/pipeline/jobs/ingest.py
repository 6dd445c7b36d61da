"""From events to silver and facts: one map-only plan over the segments of a round.

Spark hands out parts of segments, and starts again what fails. A task reads its parts with Arrow,
because it needs nearly all columns as Arrow: from Spark's own reader they would come row by row
through the JVM, which costs ten times as much.
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
from hubbub.pipeline.jobs.work import ANSWER_TYPE, Batches, answered, answers, stage_of, task_count
from hubbub.pipeline.sources.journal import Split, read_split
from hubbub.pipeline.tables.staging import Stage, StagedFile
from hubbub.pipeline.transforms import facts, silver
from hubbub.pipeline.transforms.events import summed_hashes, verdict
from hubbub.pipeline.transforms.quarantine import unfit_records
from hubbub.pipeline.views.columns import with_columns

_AT_ONCE_BYTES: Final = 256 * 2**20
"""Events of one segment whose facts are summed at once."""
_TASK_ROWS: Final = 400_000
_LEAST_ROWS: Final = 50_000
"""A task with fewer events costs more to start than to run."""
_TABLES: Final = tuple(silver.KINDS)


class Summary(msgspec.Struct, frozen=True):
    """What a task found in its part of a segment. Times are microseconds since 1970."""

    segment: str
    rows: int
    earliest: int | None
    latest: int | None
    hashes: int
    """The sum of those of all events."""
    kinds: dict[str, int]
    unfit: dict[str, int]
    late: int = 0
    nodes: dict[str, int] = {}
    """The time of the latest event of each node."""
    starts: dict[str, list[int]] = {}
    """When nodes were started."""

    @property
    def fingerprint(self) -> str:
        """The same for the same events, whatever the segment is called and however packed; empty
        where there are none."""
        return f"{self.rows}-{self.hashes:016x}" if self.rows else ""

    def __add__(self, other: Summary) -> Summary:
        """Of two parts of one segment."""
        both = [self.earliest, other.earliest, self.latest, other.latest]
        moments = [each for each in both if each is not None]
        return Summary(
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


class Answer(msgspec.Struct, frozen=True):
    """What one task did."""

    files: list[StagedFile]
    summaries: list[Summary]
    splits: list[Split]


class Rules(msgspec.Struct, frozen=True):
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


def ingest(spark: SparkSession, splits: Sequence[Split], rules: Rules) -> list[Answer]:
    """One answer for each task."""
    rows = sum(split.rows for split in splits)
    tasks = shared_out(splits, task_count(spark, rows, _LEAST_ROWS, _TASK_ROWS))

    def work(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield from answered([_ingest(tasks[number], rules)])

    plan = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(work, ANSWER_TYPE)
    return answers(plan, Answer)


def shared_out(splits: Sequence[Split], count: int) -> list[list[Split]]:
    """Neighbours together, about as many events in each of so many tasks."""
    total = sum(split.rows for split in splits)
    tasks: dict[int, list[Split]] = {}
    before = 0
    for split in splits:
        middle = before + split.rows // 2
        tasks.setdefault(middle * count // max(total, 1), []).append(split)
        before += split.rows
    return list(tasks.values())


def _ingest(splits: list[Split], rules: Rules) -> Answer:
    stage = stage_of(rules.warehouse, rules.round_name)
    summaries = [_ingest_rows(stage, name, rows, rules) for name, rows in _by_segment(splits)]
    return Answer(stage.close(), summaries, splits)


def _by_segment(splits: Iterable[Split]) -> Iterator[tuple[str, pa.Table]]:
    """Neighbouring rows of one segment together, up to a bound in memory."""
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


def _ingest_rows(stage: Stage, name: str, rows: pa.Table, rules: Rules) -> Summary:
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
    return Summary(
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
    """When each node was last heard of, and when it was started."""
    named = events.filter(pc.is_valid(events["node"])).select(["node", "at", "kind"])
    latest = named.group_by("node", use_threads=False).aggregate([("at", "max")])
    started = named.filter(pc.equal(named["kind"], NODE_STARTED))
    starts: dict[str, list[int]] = defaultdict(list)
    for row in started.to_pylist():
        starts[row["node"]].append(row["at"])
    pairs = zip(latest["node"].to_pylist(), latest["at_max"].to_pylist(), strict=True)
    return {"nodes": dict(pairs), "starts": dict(starts)}


def _derived(tables: Mapping[str, pa.Table], events: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    messages, attempts, receipts = (tables[name] for name in ("messages", "attempts", "receipts"))
    yield "_links", silver.links(messages)
    yield "publish_facts", facts.publish_facts(messages)
    yield "delivery_facts", facts.delivery_facts(tables["deliveries"], attempts, receipts)
    yield "peer_facts", facts.peer_facts(messages, attempts)
    yield "term_facts", facts.term_facts(messages)
    yield "sequence_facts", facts.sequence_facts(messages, receipts, tables["drops"])
    yield "document_facts", facts.document_facts(events)
    yield "notification_facts", facts.notification_facts(events)
    yield "push_facts", facts.push_facts(events)


def _counts(words: pa.Array | pa.ChunkedArray) -> dict[str, int]:
    return {row["values"]: row["counts"] for row in words.value_counts().to_pylist()}
