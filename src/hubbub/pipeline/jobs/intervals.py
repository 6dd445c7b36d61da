"""Sessions and subscriptions that events touch, made again from all their events."""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hubbub.pipeline.catalogue import EVENT, SCRATCH
from hubbub.pipeline.jobs.changes import Changes
from hubbub.pipeline.jobs.work import ANSWER, ANSWER_TYPE, answered, answers, stage_of, write
from hubbub.pipeline.sources.table import FILE, files_frame
from hubbub.pipeline.tables.snapshot import Snapshot
from hubbub.pipeline.tables.staging import StagedFile
from hubbub.pipeline.transforms.intervals import KEYS, KINDS, Endings, rows_of

_PARTS: Final = SCRATCH["_session_events"].schema
_SHARD: Final = "shard"
_SHARD_EVENTS: Final = 500_000


def intervals(
    spark: SparkSession,
    snapshot: Snapshot,
    round_name: str,
    changes: Changes,
    gone: Collection[str],
    over: Endings,
    ended: Collection[str],
) -> None:
    """`changes` holds the staged session events of new segments, and takes the intervals; `gone`
    are the segments whose events go, `over` the moments at which what nodes had open was over,
    `ended` the nodes of which these changed."""
    fresh = changes.added.get("_session_events", ())
    if not (fresh or gone or ended):
        return
    paths = changes.paths("_session_events")
    parts = [files_frame(spark, snapshot.location, "_session_events", paths)]
    events = sum(file.rows for file in fresh)
    for table in KEYS:
        files, kept, again = _touched(spark, snapshot, table, parts[0], gone, ended)
        if files:
            changes.remove(table, files)
            changes.add(write(kept, str(snapshot.location), round_name, table))
            parts.append(again)
            events += sum(file.rows for file in snapshot.files(table) if file.path in files)
    if fresh or len(parts) > 1:
        together = reduce(DataFrame.unionByName, parts)
        changes.add(_made(together, str(snapshot.location), round_name, events, over))


def _touched(
    spark: SparkSession,
    snapshot: Snapshot,
    table: str,
    fresh: DataFrame,
    gone: Collection[str],
    ended: Collection[str],
) -> tuple[list[str], DataFrame, DataFrame]:
    """The files with keys that changed, their rows of other keys, and the events of those keys."""
    key, place = list(KEYS[table]), snapshot.location
    files = [file.path for file in snapshot.files(table)]
    keys = fresh.where(F.col("kind").isin(*KINDS[table])).select(*key)
    if (gone or ended) and files:
        is_gone = F.exists("events", lambda event: event["segment"].isin(*gone))
        begins = F.element_at("events", -1)["kind"] == KINDS[table][0]
        old = files_frame(spark, place, table, files, [*key, "node", "events"])
        changed = is_gone | (begins & F.col("node").isin(*ended))
        keys = keys.unionByName(old.where(changed).select(*key))
    keys = keys.distinct()
    narrow = files_frame(spark, place, table, files, key, with_file=True)
    hit = narrow.join(keys, key, "left_semi").select(FILE).distinct() if files else None
    found = sorted(row[FILE] for row in hit.collect()) if hit is not None else []
    rows = files_frame(spark, place, table, found)
    each = rows.join(keys, key, "left_semi").withColumn("event", F.explode("events"))
    again = each.select(
        *(
            F.col(name) if name in key else F.lit(None).cast("string").alias(name)
            for name in ("hub", "channel", "session")
        ),
        *(F.col(f"event.{name}").alias(name) for name in EVENT.names),
    )
    if gone:
        again = again.where(~F.col("segment").isin(*gone))
    return found, rows.join(keys, key, "left_anti"), again


def _made(
    parts: DataFrame, warehouse: str, round_name: str, events: int, over: Endings
) -> list[StagedFile]:
    shards = max(parts.sparkSession.sparkContext.defaultParallelism, 1 + events // _SHARD_EVENTS)
    sharded = parts.withColumn(_SHARD, F.pmod(F.xxhash64("hub", "session"), F.lit(shards)))

    def work(key: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:
        stage = stage_of(warehouse, f"{round_name}-{key[0].as_py()}")
        events = rows.select(_PARTS.names).cast(_PARTS)
        for table in KEYS:
            stage.add(table, rows_of(table, events, over))
        return pa.Table.from_batches(answered(stage.close()), ANSWER)

    return answers(sharded.groupBy(_SHARD).applyInArrow(work, ANSWER_TYPE), StagedFile)
