"""Recomputes sessions and subscriptions affected by new events, from all their events."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial, reduce
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hubbub.pipeline.catalogue import EVENT, SCRATCH, taken_from
from hubbub.pipeline.jobs.work import Work
from hubbub.pipeline.transforms.intervals import KEYS, KINDS, Endings, rows_of

_EVENTS: Final = "_session_events"
_PARTS: Final = SCRATCH[_EVENTS].schema


def intervals(work: Work, over: Endings, ended: Collection[str]) -> None:
    """`over` holds the times at which each node's open sessions ended, `ended` the nodes for which
    they changed."""
    events = work.rows_of(_EVENTS)
    if not (events or work.gone or ended):
        return
    parts = [work.new(_EVENTS)]
    for table in KEYS:
        if work.base.files(table):
            parts.append(_again(work, table, parts[0], ended))
            events += work.rows_of(taken_from(table))
    every = reduce(DataFrame.unionByName, parts)
    work.make(every, events, ("hub", "session"), partial(_made, over))


def _made(over: Endings, rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    events = rows.select(_PARTS.names).cast(_PARTS)
    return ((table, rows_of(table, events, over)) for table in KEYS)


def _again(work: Work, table: str, fresh: DataFrame, ended: Collection[str]) -> DataFrame:
    """The events of changed keys; their rows are removed from the table."""
    key, files = list(KEYS[table]), work.base.files(table)
    keys = fresh.where(F.col("kind").isin(*KINDS[table])).select(*key)
    if work.gone or ended:
        is_gone = F.exists("events", lambda event: event["segment"].isin(*work.gone))
        begins = F.element_at("events", -1)["kind"] == KINDS[table][0]
        old = work.frame(table, files, [*key, "node", "events"])
        changed = is_gone | (begins & F.col("node").isin(*ended))
        keys = keys.unionByName(old.where(changed).select(*key))
    there = work.frame(table, files, key, with_file=True)
    rows = work.take_out(table, there.join(keys.distinct(), key, "left_semi").distinct())
    each = rows.withColumn("event", F.explode("events"))
    again = each.select(
        *(
            F.col(name) if name in key else F.lit(None).cast("string").alias(name)
            for name in ("hub", "channel", "session")
        ),
        *(F.col(f"event.{name}").alias(name) for name in EVENT.names),
    )
    return work.staying(again)
