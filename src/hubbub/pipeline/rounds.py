"""A round brings the warehouse up to date with the journal: silver first, committed; then gold."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from hubbub.pipeline.bronze import HOUR_MICROSECONDS, hour_name
from hubbub.pipeline.gold_tables import GoldTable
from hubbub.pipeline.ingesting import Ingestion, Said
from hubbub.pipeline.inspecting import unreadable
from hubbub.pipeline.planning import DUPLICATE, Plan, plan
from hubbub.pipeline.refining import Refinement, stale
from hubbub.pipeline.session import compiling
from hubbub.pipeline.state import State
from hubbub.pipeline.warehouse import Warehouse

LITTLE_BYTES: Final = 16_000_000
"""New segments up to here in all are little: to compile code for taking them in takes longer than
to do without. Gold tables may read much more than what is new, so theirs is always compiled."""


@dataclass
class Summary:
    """What a round did."""

    segments: int = 0
    events: int = 0
    """Fit ones, of all segments that were taken."""
    late: int = 0
    """Those for an hour before the one that had been reached."""
    kinds: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    retracted: int = 0
    tables: int = 0
    """Gold tables that were computed, in part or as a whole."""
    silver_seconds: float = 0
    gold_seconds: float = 0


def run_round(
    warehouse: Warehouse,
    journal: Path,
    tables: Sequence[GoldTable],
    spark: Callable[[], SparkSession],
    *,
    full: bool = False,
    now: Callable[[], int] = lambda: time.time_ns() // 1000,
    said: Said = lambda _: None,
) -> Summary:
    """Take in what is new, and compute what follows from it. Calls `spark` only if there is work.

    The caller holds `warehouse.changing()`. Raises what Spark raises; what was committed before
    stays as it was."""
    summary = Summary()
    todo = plan(warehouse.state, journal, now(), full)
    little = 0 < sum(one.size for one in todo.fresh.values()) < LITTLE_BYTES
    if not todo.idle:
        started = time.monotonic()
        with compiling(spark(), not little):
            _ingest(warehouse, todo, spark(), said, summary)
        summary.silver_seconds = time.monotonic() - started
    if stale(warehouse.state, tables):
        started = time.monotonic()
        _refine(warehouse, tables, spark(), said, summary)
        summary.gold_seconds = time.monotonic() - started
    return summary


def _ingest(
    warehouse: Warehouse, todo: Plan, spark: SparkSession, said: Said, summary: Summary
) -> None:
    ingestion = Ingestion(spark, warehouse, todo)
    try:
        changes, state = ingestion.run(said)
    except (PySparkException, Py4JJavaError):
        # Damage inside of a segment shows only when it is read. Find it, and go on without.
        said("looking for damaged segments")
        bad = unreadable(todo.fresh)
        if not bad:
            raise
        for name, (word, sentence) in bad.items():
            todo.refuse(name, word, sentence)
        warehouse.clear_drafts()
        ingestion = Ingestion(spark, warehouse, todo)
        changes, state = ingestion.run(said)
    _summarize(summary, todo, ingestion)
    said("committing")
    warehouse.commit(changes, state)


def _summarize(summary: Summary, todo: Plan, ingestion: Ingestion) -> None:
    reached = hour_name(todo.base.watermark // HOUR_MICROSECONDS)
    summary.segments = len(ingestion.surveys)
    summary.retracted = len(todo.retracted)
    summary.refused.update(word for _, word, _ in todo.refused.values())
    summary.refused.update(DUPLICATE for _ in ingestion.doubles)
    for one in ingestion.surveys.values():
        summary.refused.update(one.refused)
        for kind, hours in one.hours.items():
            summary.kinds[kind] += sum(hours.values())
            summary.late += sum(count for hour, count in hours.items() if hour < reached)
    summary.events = summary.kinds.total()


def _refine(
    warehouse: Warehouse,
    tables: Sequence[GoldTable],
    spark: SparkSession,
    said: Said,
    summary: Summary,
) -> None:
    changes = Refinement(spark, warehouse, tables).run(said)
    summary.tables = sum(1 for change in changes if change.replaced)
    before = warehouse.state
    said("committing")
    warehouse.commit(changes, State(watermark=before.watermark, segments=before.segments))
