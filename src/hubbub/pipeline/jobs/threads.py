"""Recomputes threads affected by new or retracted messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from hubbub.pipeline.catalogue import SCRATCH, taken_from
from hubbub.pipeline.columns import PEER
from hubbub.pipeline.jobs.labels import labels
from hubbub.pipeline.jobs.work import Work, small
from hubbub.pipeline.sources.table import FILE
from hubbub.pipeline.tables.snapshot import DataFile
from hubbub.pipeline.tables.staging import StagedFile
from hubbub.pipeline.transforms.threads import threaded

LINKS_OF_A_TASK: Final = 4_000_000
"""Up to this number of links, one task computes the components; above it, several tasks."""
_TABLE: Final = "linked_messages"
_LINKS: Final = SCRATCH["_links"].schema
_LINK: Final = tuple(_LINKS.names)
_THREAD: Final = ["hub", "thread"]
_NODE: Final = "node"


def threads(work: Work) -> None:
    """Processes the links and messages that the round adds or removes."""
    rows = _taken_out(work)
    count = work.rows_of("_links") + work.rows_of(taken_from(_TABLE))
    if count:
        links = work.staying(rows.select(*_LINK)).unionByName(work.new("_links"))
        work.make(_labelled(work, links, count), count, ("label",), _made)


def _labelled(work: Work, links: DataFrame, count: int) -> DataFrame:
    """About `count` links, and the unlinked messages that they refer to, each with its thread's
    label."""

    def kept(pairs: DataFrame) -> tuple[DataFrame, int]:
        staged = work.write(pairs, "_pairs")
        return work.frame("_pairs", staged), sum(file.rows for file in staged)

    ends = links.select(
        _message().alias("a"), F.explode(_nodes("conversation_id", "refers_to")).alias("b")
    )
    of_thread = labels(ends, count, kept, LINKS_OF_A_TASK)
    # A message without a label belongs to no thread.
    alone = [_messages(work, work.added.get("messages", ()))]
    alone.append(work.staying(_messages(work, work.base.files("messages"))))
    every = reduce(DataFrame.unionByName, alone, links).withColumn(_NODE, _message())
    return every.join(small(of_thread, count), _NODE).select("label", *_LINK)


def _made(rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    if len(rows):
        yield _TABLE, threaded(rows.select(_LINK).cast(_LINKS))


def _taken_out(work: Work) -> DataFrame:
    """The rows of changed threads, which are removed from the table."""
    files = work.base.files(_TABLE)
    if not files:
        return work.new(taken_from(_TABLE))
    columns = [*_THREAD, "message_id", "conversation_id", "refers_to", "segment"]
    old = work.frame(_TABLE, files, columns, with_file=True)
    # A message may come after those that refer to it.
    every = _nodes("message_id", "conversation_id", "refers_to")
    came = _messages(work, work.added.get("messages", ())).select(_message().alias(_NODE))
    came = came.unionByName(work.new("_links").select(F.explode(every).alias(_NODE)))
    found = old.select(*_THREAD, F.explode(every).alias(_NODE)).join(
        small(came, work.rows_of("messages")), _NODE, "left_semi"
    )
    found = found.select(*_THREAD)
    if work.gone:
        lost = old.where(F.col("segment").isin(*work.gone)).select(*_THREAD)
        found = found.unionByName(lost)
    there = old.select(*_THREAD, FILE).distinct()
    return work.take_out(_TABLE, there.join(found.distinct(), _THREAD, "left_semi"))


def _messages(work: Work, files: Iterable[StagedFile | DataFile]) -> DataFrame:
    """Messages that are not links."""
    columns = [name for name in _LINK if name != "peer"]
    rows = work.frame("messages", files, [*columns, *PEER])
    alone = F.col("conversation_id").isNull() & F.col("refers_to").isNull()
    return rows.where(alone).withColumn("peer", F.coalesce(*PEER)).select(*_LINK)


def _message() -> Column:
    return _node("message_id")


def _nodes(*names: str) -> Column:
    """The graph nodes that a link names."""
    return F.array_compact(F.array(*map(_node, names)))


def _node(name: str) -> Column:
    """A hash of a message or conversation. On a collision, the merged threads are separated again
    by name."""
    kind = "c" if name == "conversation_id" else "m"
    return F.when(F.col(name).isNotNull(), F.xxhash64(F.lit(kind), "hub", name))
