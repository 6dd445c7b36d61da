"""Which message belongs to which thread, and at which place in it."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from hubbub.domain.analytics import question_of
from hubbub.pipeline.gold.columns import TEXT, TIME, WHOLE, schema, shaped
from hubbub.pipeline.gold.components import components
from hubbub.pipeline.gold.replies import BY_REFERENCE
from hubbub.pipeline.tables import GoldTable

SCHEMA = schema(
    hub=TEXT,
    thread=TEXT,
    position=WHOLE,
    message_id=TEXT,
    at=TIME,
    channel=TEXT,
    peer=TEXT,
    conversation_id=TEXT,
    refers_to=TEXT,
)


def transform(sources: Mapping[str, DataFrame]) -> DataFrame:
    """Messages are of one thread if they share a conversation, or if one answers the other, or by
    a chain of such steps. A thread has the id of its first message."""
    replies = sources["replies"].where(F.col("how") == BY_REFERENCE)
    messages = _messages(sources["links"], replies)
    roots = components(_edges(replies))
    node = _node(F.col("hub"), F.col("conversation_id"), F.col("message_id"))
    placed = (
        messages.withColumn("node", node)
        .join(roots, "node", "left")
        .withColumn("group", F.coalesce("root", "node"))
    )
    thread = Window.partitionBy("group").orderBy("at", "serial", "message_id")
    whole = thread.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    return shaped(
        placed.withColumns(
            {
                "position": F.row_number().over(thread),
                "thread": F.first("message_id").over(whole),
            }
        ),
        SCHEMA,
    )


def _node(hub: Column, conversation: Column, message: Column) -> Column:
    """A conversation is one node, however many messages it has: what remains of the graph is
    small. A message without a conversation is a node of its own."""
    own = F.coalesce(F.concat(F.lit("c"), conversation), F.concat(F.lit("m"), message))
    return F.concat_ws("\u0000", hub, own)


def _edges(replies: DataFrame) -> DataFrame:
    return replies.select(
        _node(F.col("hub"), F.col("conversation_id"), F.col("answer_id")).alias("a"),
        _node(F.col("hub"), F.col("question_conversation_id"), F.col("question_id")).alias("b"),
    )


def _messages(links: DataFrame, replies: DataFrame) -> DataFrame:
    """The linked ones, and those that were answered without being linked themselves. One that the
    journal does not have is named by those that answer it, but has no row."""
    plain = replies.where(
        F.col("asked_at").isNotNull() & F.col("question_conversation_id").isNull()
    ).select(
        "hub",
        F.col("question_id").alias("message_id"),
        F.col("asked_at").alias("at"),
        F.lit(None).cast("long").alias("serial"),
        F.col("question_channel").alias("channel"),
        F.col("asker").alias("peer"),
        F.lit(None).cast("string").alias("conversation_id"),
        F.lit(None).cast("string").alias("refers_to"),
    )
    columns = plain.columns
    unlinked = plain.dropDuplicates(["hub", "message_id"]).join(
        links.select("hub", "message_id"), ["hub", "message_id"], "left_anti"
    )
    return links.select(*columns).unionByName(unlinked.select(*columns))


TABLE = GoldTable(
    name="thread_messages",
    question=question_of("thread_messages"),
    schema=SCHEMA,
    sources=("links", "replies"),
    grain="all",
    transform=transform,
    key=("hub", "message_id"),
)
