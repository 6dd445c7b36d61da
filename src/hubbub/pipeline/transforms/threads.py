"""Threads: which linked messages belong together, what each answers, and its place.

Frames have the columns of `catalogue.SCRATCH["_links"]`. A message answers the one that it refers
to. If it refers to none, it answers the message before it in its conversation, if another peer
wrote that. Messages are of one thread if they share a conversation, or if one answers the other by
reference, or by a chain of such steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from hubbub.pipeline.catalogue import TABLES
from hubbub.pipeline.grouping import Integers, whole
from hubbub.pipeline.transforms.components import roots

BY_REFERENCE: Final = "reference"
IN_CONVERSATION: Final = "conversation"
_ORDER: Final = ("at", "serial", "message_id")
"""Of messages of one moment the order is that of their serials, then of their ids."""
_ROOT: Final = "root"
_NODE: Final = "node"


def node(
    hub: str = "hub", conversation: str = "conversation_id", message: str = "message_id"
) -> Column:
    """What stands for a message in the graph: its conversation, however long, or the message."""
    return F.coalesce(
        F.concat(F.lit("c"), F.col(hub), F.lit("\0"), F.col(conversation)),
        message_node(hub, message),
    )


def message_node(hub: str = "hub", message: str = "message_id") -> Column:
    return F.concat(F.lit("m"), F.col(hub), F.lit("\0"), F.col(message))


def threaded(links: DataFrame) -> DataFrame:
    """Rows of `linked_messages`. `links` holds whole threads, and the messages that they refer to
    where the journal has them. All rows of a thread are in one partition of the result."""
    rows = links.withColumn(_NODE, node())
    labelled = rows.join(_labels(rows), _NODE, "left").drop(_NODE)
    in_thread = Window.partitionBy(_ROOT).orderBy(*_ORDER)
    first = (
        Window.partitionBy(_ROOT)
        .orderBy(*_ORDER)
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    placed = (
        _answering(labelled)
        .withColumn("position", F.row_number().over(in_thread).cast("long"))
        .withColumn("thread", F.first("message_id").over(first))
        .withColumn("thread_began", F.first("at").over(first))
    )
    return placed.select(*TABLES["linked_messages"].schema.names)


def _answering(rows: DataFrame) -> DataFrame:
    """With the question that each message answers, and how long that took."""
    asked = F.struct("at", "peer", "channel", "conversation_id")
    # Of copies of a message in several hours the last one.
    questions = (
        rows.groupBy("hub", F.col("message_id").alias("refers_to"))
        .agg(F.max(asked).alias("referred"))
        .withColumn("refers", F.lit(True))
    )
    talk = Window.partitionBy("hub", "conversation_id").orderBy(*_ORDER)
    before = F.struct("message_id", "at", "peer", "channel", "conversation_id")
    in_talk = rows.where(F.col("conversation_id").isNotNull()).withColumn(
        "before", F.lag(before).over(talk)
    )
    alone = rows.where(F.col("conversation_id").isNull()).withColumn(
        "before", F.lit(None).cast(in_talk.schema["before"].dataType)
    )
    each = in_talk.unionByName(alone).join(questions, ["hub", "refers_to"], "left")
    referring = F.col("refers_to").isNotNull()
    following = F.col("before").isNotNull() & ~F.col("before.peer").eqNullSafe(F.col("peer"))
    how = F.when(referring, BY_REFERENCE).when(following, IN_CONVERSATION)

    def of_question(name: str) -> Column:
        return F.when(referring, F.col(f"referred.{name}")).when(following, F.col(f"before.{name}"))

    asked_at = of_question("at")
    took = F.unix_micros("at") - F.unix_micros(asked_at)
    return (
        each.withColumn("how", how)
        .withColumn(
            "question_id",
            F.when(referring, F.col("refers_to")).when(following, F.col("before.message_id")),
        )
        .withColumn("asker", of_question("peer"))
        .withColumn("question_channel", of_question("channel"))
        .withColumn("question_conversation_id", of_question("conversation_id"))
        .withColumn("asked_at", asked_at)
        .withColumn("response_time", F.when(took.isNotNull(), F.greatest(took, F.lit(0))))
    )


def _labels(rows: DataFrame) -> DataFrame:
    """The number of the thread of each node. The graph has an edge for each reference, and a
    conversation is one node: it is small, and one task holds it."""
    known = rows.select("hub", "message_id", _NODE)
    edges = rows.select("hub", "refers_to", _NODE).where(F.col("refers_to").isNotNull())
    # A reference leads to the conversation of the message that it names, if that is known.
    there = known.select("hub", F.col("message_id").alias("refers_to"), F.col(_NODE).alias("there"))
    ends = edges.join(there.distinct(), ["hub", "refers_to"], "left").select(
        F.col(_NODE).alias("here"),
        F.coalesce("there", message_node("hub", "refers_to")).alias("there"),
    )
    every = ends.unionByName(
        known.select(F.col(_NODE).alias("here"), F.col(_NODE).alias("there"))
    ).distinct()
    return every.coalesce(1).mapInArrow(_components, f"{_NODE} string, {_ROOT} long")


def _components(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    edges = pa.Table.from_batches(
        batches, pa.schema([("here", pa.string()), ("there", pa.string())])
    )
    both = pa.concat_arrays([whole(edges["here"]), whole(edges["there"])])
    codes = both.dictionary_encode()
    numbers: Integers = codes.indices.to_numpy().astype(np.int64)
    a, b = numbers[: len(edges)], numbers[len(edges) :]
    apart = a != b
    found = roots(a[apart], b[apart], len(codes.dictionary))
    yield pa.RecordBatch.from_arrays(
        [codes.dictionary, pc.cast(pa.array(found), pa.int64())], [_NODE, _ROOT]
    )
