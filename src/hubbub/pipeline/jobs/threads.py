"""Threads that new or retracted messages touch, put together again; the others stay as they are."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from hubbub.pipeline.catalogue import SCRATCH
from hubbub.pipeline.jobs.changes import Changes
from hubbub.pipeline.jobs.work import write
from hubbub.pipeline.sources.table import FILE, files_frame
from hubbub.pipeline.tables.snapshot import Snapshot
from hubbub.pipeline.transforms.threads import message_node, node, threaded
from hubbub.pipeline.views.columns import PEER

_TABLE: Final = "linked_messages"
_LINK: Final = tuple(SCRATCH["_links"].schema.names)
_THREAD: Final = ["hub", "thread"]
_MESSAGE: Final = ["hub", "message_id"]


def threads(
    spark: SparkSession,
    snapshot: Snapshot,
    round_name: str,
    fresh: Changes,
    gone: Collection[str],
) -> Changes:
    """`fresh` holds the staged links and messages of new segments, `gone` the segments whose
    messages go."""
    changes = Changes()
    work = _Work(spark, snapshot, fresh, gone)
    files, touched = work.touched()
    if not work.has_links and not files:
        return changes
    rows = files_frame(spark, snapshot.location, _TABLE, files)
    links = work.links(rows.join(touched, _THREAD, "left_semi"))
    place = str(snapshot.location)
    changes.add(write(threaded(links), place, round_name, _TABLE))
    if files:
        changes.remove(_TABLE, files)
        changes.add(write(rows.join(touched, _THREAD, "left_anti"), place, round_name, _TABLE))
    return changes


class _Work:
    def __init__(
        self, spark: SparkSession, snapshot: Snapshot, fresh: Changes, gone: Collection[str]
    ) -> None:
        self._spark = spark
        self._snapshot = snapshot
        self._gone = gone
        self._place = snapshot.location
        self.has_links = bool(fresh.paths("_links"))
        self._new = files_frame(spark, self._place, "_links", fresh.paths("_links"))
        self._staged = fresh.paths("messages")

    def touched(self) -> tuple[list[str], DataFrame]:
        """The files with threads that changed, and those threads."""
        files = [file.path for file in self._snapshot.files(_TABLE)]
        if not files:
            return [], self._threads([])
        columns = ["hub", "thread", "message_id", "conversation_id", "refers_to", "segment"]
        old = files_frame(self._spark, self._place, _TABLE, files, columns, with_file=True)
        where = [*_THREAD, FILE]
        found = [
            old.select(*where, F.explode(_nodes()).alias("node")).join(
                self._new.select(F.explode(_nodes()).alias("node")).distinct(), "node", "left_semi"
            )
        ]
        if self._staged:
            # A message may come after those that refer to it.
            came = self._messages(self._staged).select(
                "hub", F.col("message_id").alias("refers_to")
            )
            found.append(old.join(came, ["hub", "refers_to"], "left_semi"))
        if self._gone:
            found.append(old.where(F.col("segment").isin(*self._gone)))
        every = reduce(DataFrame.unionByName, [each.select(*where) for each in found])
        rows = every.distinct().toArrow()
        names = sorted(set(rows[FILE].to_pylist()))
        return names, self._spark.createDataFrame(rows.select(_THREAD))

    def _threads(self, rows: Sequence[tuple[str, str]]) -> DataFrame:
        return self._spark.createDataFrame(list(rows), "hub string, thread string")

    def links(self, rows: DataFrame) -> DataFrame:
        """The messages of touched threads as they are now: those that stay, those that are new,
        and those that they refer to without being linked themselves."""
        stays = rows.select(*_LINK)
        if self._gone:
            stays = stays.where(~F.col("segment").isin(*self._gone))
        linked = F.col("conversation_id").isNotNull() | F.col("refers_to").isNotNull()
        links = stays.where(linked).unionByName(self._new)
        wanted = (
            links.where(F.col("refers_to").isNotNull())
            .select("hub", F.col("refers_to").alias("message_id"))
            .distinct()
            .join(links.select(*_MESSAGE), _MESSAGE, "left_anti")
        )
        return links.unionByName(self._asked(wanted))

    def _asked(self, wanted: DataFrame) -> DataFrame:
        """Messages that are referred to. Of copies in several hours the last one."""
        committed = [file.path for file in self._snapshot.files("messages")]
        messages = self._messages(committed)
        if self._gone:
            messages = messages.where(~F.col("segment").isin(*self._gone))
        every = messages.unionByName(self._messages(self._staged))
        found = every.join(wanted, _MESSAGE, "left_semi")
        rest = [name for name in _LINK if name not in _MESSAGE]
        last = F.max(F.struct("at", *(name for name in rest if name != "at"))).alias("last")
        return found.groupBy(*_MESSAGE).agg(last).select(*_MESSAGE, "last.*").select(*_LINK)

    def _messages(self, files: Sequence[str]) -> DataFrame:
        columns = [name for name in _LINK if name != "peer"]
        rows = files_frame(self._spark, self._place, "messages", files, [*columns, *PEER])
        return rows.withColumn("peer", F.coalesce(*PEER)).select(*_LINK)


def _nodes() -> Column:
    """All nodes of the graph that a link names."""
    return F.array_distinct(
        F.filter(F.array(node(), message_node(), message_node("hub", "refers_to")), F.isnotnull)
    )
