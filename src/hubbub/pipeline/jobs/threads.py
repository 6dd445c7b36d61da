"""Threads that new or retracted messages touch, put together again; the others stay as they are."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import reduce
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from hubbub.pipeline.catalogue import SCRATCH
from hubbub.pipeline.jobs.changes import Changes
from hubbub.pipeline.jobs.labels import Kept, labels
from hubbub.pipeline.jobs.work import ANSWER_TYPE, Batches, answered, answers, stage_of, write
from hubbub.pipeline.sources.table import FILE, files_frame
from hubbub.pipeline.tables.snapshot import Snapshot
from hubbub.pipeline.tables.staging import StagedFile
from hubbub.pipeline.transforms.threads import threaded
from hubbub.pipeline.views.columns import PEER

ROWS_OF_A_TASK: Final = 1_000_000
"""More linked messages are brought together by thread, in several tasks. That costs more, so it is
done only where one task would need too much memory."""
_BROADCAST_ROWS: Final = 1_000_000
_TABLE: Final = "linked_messages"
_LINKS: Final = SCRATCH["_links"].schema
_LINK: Final = tuple(_LINKS.names)
_THREAD: Final = ["hub", "thread"]
_MESSAGE: Final = ["hub", "message_id"]
_NODE: Final = "node"


def threads(
    spark: SparkSession,
    snapshot: Snapshot,
    round_name: str,
    changes: Changes,
    gone: Collection[str],
) -> None:
    """`changes` holds the staged links and messages of new segments, and takes the threads; `gone`
    are the segments whose messages go."""
    work = _Work(spark, snapshot, changes, gone)
    files, touched = work.touched()
    if not work.new_rows and not files:
        return
    rows = files_frame(spark, snapshot.location, _TABLE, files)
    place = str(snapshot.location)
    links = work.links(rows.join(touched, _THREAD, "left_semi"))
    count = work.new_rows + sum(file.rows for file in snapshot.files(_TABLE) if file.path in files)

    def kept(pairs: DataFrame) -> tuple[DataFrame, int]:
        staged = write(pairs, place, round_name, "_pairs")
        paths = [file.path for file in staged]
        rows = sum(file.rows for file in staged)
        return files_frame(spark, snapshot.location, "_pairs", paths), rows

    changes.add(_write_threads(together(links, count, kept), place, round_name))
    if files:
        changes.remove(_TABLE, files)
        changes.add(write(rows.join(touched, _THREAD, "left_anti"), place, round_name, _TABLE))
    touched.unpersist()


def together(links: DataFrame, count: int, kept: Kept) -> DataFrame:
    """All links of a thread in one partition. `count` is about how many there are."""
    if count <= ROWS_OF_A_TASK:
        return links.repartition(1)
    ends = links.select(
        _message().alias("a"), F.explode(_nodes("conversation_id", "refers_to")).alias("b")
    )
    of_thread = labels(ends, kept, ROWS_OF_A_TASK)
    labelled = links.withColumn(_NODE, _message()).join(of_thread, _NODE)
    return labelled.repartition(2 + 4 * count // ROWS_OF_A_TASK, "label").select(*_LINK)


def _write_threads(links: DataFrame, warehouse: str, round_name: str) -> list[StagedFile]:
    def work(batches: Batches) -> Batches:
        rows = pa.Table.from_batches(list(batches), _LINKS)
        stage = stage_of(warehouse, round_name)
        if len(rows):
            stage.add(_TABLE, threaded(rows))
        yield from answered(stage.close())

    return answers(links.mapInArrow(work, ANSWER_TYPE), StagedFile)


class _Work:
    def __init__(
        self, spark: SparkSession, snapshot: Snapshot, fresh: Changes, gone: Collection[str]
    ) -> None:
        self._spark = spark
        self._snapshot = snapshot
        self._gone = gone
        self._place = snapshot.location
        self.new_rows = sum(file.rows for file in fresh.added.get("_links", ()))
        self._new_messages = sum(file.rows for file in fresh.added.get("messages", ()))
        self._new = files_frame(spark, self._place, "_links", fresh.paths("_links"))
        self._staged = self._messages(fresh.paths("messages"))

    def touched(self) -> tuple[list[str], DataFrame]:
        """The files with threads that changed, and those threads."""
        files = [file.path for file in self._snapshot.files(_TABLE)]
        if not files:
            return [], self._spark.createDataFrame([], "hub string, thread string")
        columns = [*_THREAD, "message_id", "conversation_id", "refers_to", "segment"]
        old = files_frame(self._spark, self._place, _TABLE, files, columns, with_file=True)
        # A message may come after those that refer to it.
        every = _nodes("message_id", "conversation_id", "refers_to")
        came = self._staged.select(_message().alias(_NODE)).unionByName(
            self._new.select(F.explode(every).alias(_NODE))
        )
        where = [*_THREAD, FILE]
        found = old.select(*where, F.explode(every).alias(_NODE)).join(
            self._small(came, self._new_messages), _NODE, "left_semi"
        )
        found = found.select(*where)
        if self._gone:
            lost = old.where(F.col("segment").isin(*self._gone)).select(*where)
            found = found.unionByName(lost)
        rows = found.distinct().persist()
        names = sorted(row[FILE] for row in rows.select(FILE).distinct().collect())
        return names, rows.select(*_THREAD).distinct()

    def links(self, rows: DataFrame) -> DataFrame:
        """The messages of touched threads as they are now: those that stay, those that are new,
        and those that they refer to without being linked themselves."""
        stays = rows.select(*_LINK)
        if self._gone:
            stays = stays.where(~F.col("segment").isin(*self._gone))
        links = stays.unionByName(self._new)
        asked = (
            links.where(F.col("refers_to").isNotNull())
            .select("hub", F.col("refers_to").alias("message_id"))
            .distinct()
        )
        found = [links, self._staged.join(self._small(asked, self.new_rows), _MESSAGE, "left_semi")]
        if committed := [file.path for file in self._snapshot.files("messages")]:
            unknown = asked.join(links.select(*_MESSAGE), _MESSAGE, "left_anti")
            before = self._messages(committed)
            if self._gone:
                before = before.where(~F.col("segment").isin(*self._gone))
            found.append(before.join(self._small(unknown, self.new_rows), _MESSAGE, "left_semi"))
        return reduce(DataFrame.unionByName, found)

    def _messages(self, files: Sequence[str]) -> DataFrame:
        """Messages that are no links themselves."""
        columns = [name for name in _LINK if name != "peer"]
        rows = files_frame(self._spark, self._place, "messages", files, [*columns, *PEER])
        alone = F.col("conversation_id").isNull() & F.col("refers_to").isNull()
        return rows.where(alone).withColumn("peer", F.coalesce(*PEER)).select(*_LINK)

    def _small(self, rows: DataFrame, count: int) -> DataFrame:
        """For the smaller side of a join, so that the larger one is not shuffled."""
        return F.broadcast(rows) if count <= _BROADCAST_ROWS else rows


def _message() -> Column:
    return _node("message_id")


def _nodes(*names: str) -> Column:
    """The nodes of the graph that a link names."""
    return F.array_compact(F.array(*map(_node, names)))


def _node(name: str) -> Column:
    """A number for a message or a conversation. Two may have the same one: what is brought together
    for that is told apart by name."""
    kind = "c" if name == "conversation_id" else "m"
    return F.when(F.col(name).isNotNull(), F.xxhash64(F.lit(kind), "hub", name))
