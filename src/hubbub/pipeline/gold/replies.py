"""The provenance graph: who answered what, and how long it took."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from hubbub.domain.analytics import question_of
from hubbub.pipeline.gold.columns import TEXT, TIME, WHOLE, schema, shaped, who
from hubbub.pipeline.tables import GoldTable

BY_REFERENCE = "reference"
IN_CONVERSATION = "conversation"

SCHEMA = schema(
    hub=TEXT,
    answer_id=TEXT,
    question_id=TEXT,
    how=TEXT,
    asker=TEXT,
    answerer=TEXT,
    question_channel=TEXT,
    channel=TEXT,
    question_conversation_id=TEXT,
    conversation_id=TEXT,
    asked_at=TIME,
    answered_at=TIME,
    response_time=WHOLE,
)


def transform(sources: Mapping[str, DataFrame]) -> DataFrame:
    """A message answers the one that it refers to. If it refers to none, it answers the message
    before it in its conversation, if that is somebody else's: who goes on answers nothing.

    A question that the journal does not have leaves `asker` and `response_time` empty; an answer
    whose clock is behind the question's counts as given at once."""
    links = sources["links"]
    answers = links.select(
        "hub",
        F.col("message_id").alias("answer_id"),
        F.col("peer").alias("answerer"),
        "channel",
        "conversation_id",
        F.col("at").alias("answered_at"),
        "refers_to",
    )
    edges = _referring(answers, sources["messages"]).unionByName(_following(links))
    micros = F.unix_micros("answered_at") - F.unix_micros("asked_at")
    return shaped(
        edges.withColumn("response_time", F.when(micros < 0, 0).otherwise(micros)), SCHEMA
    )


def _referring(answers: DataFrame, messages: DataFrame) -> DataFrame:
    questions = messages.select(
        "hub",
        F.col("message_id").alias("question_id"),
        who().alias("asker"),
        F.col("channel").alias("question_channel"),
        F.col("conversation_id").alias("question_conversation_id"),
        F.col("at").alias("asked_at"),
    )
    asked = answers.where(F.col("refers_to").isNotNull()).withColumnRenamed(
        "refers_to", "question_id"
    )
    found = asked.join(questions, ["hub", "question_id"], "left")
    return found.withColumn("how", F.lit(BY_REFERENCE))


def _following(links: DataFrame) -> DataFrame:
    """What follows somebody else's message in a conversation. Of messages of one moment the order
    is that of their serials, then of their ids, so that it is the same in every run."""
    conversation = Window.partitionBy("hub", "conversation_id").orderBy(
        "at", "serial", "message_id"
    )

    def before(name: str) -> Column:
        return F.lag(name).over(conversation)

    in_order = links.where(F.col("conversation_id").isNotNull()).select(
        "hub",
        F.col("message_id").alias("answer_id"),
        F.col("peer").alias("answerer"),
        "channel",
        "conversation_id",
        F.col("at").alias("answered_at"),
        "refers_to",
        before("message_id").alias("question_id"),
        before("peer").alias("asker"),
        before("channel").alias("question_channel"),
        before("at").alias("asked_at"),
        F.col("conversation_id").alias("question_conversation_id"),
        F.lit(IN_CONVERSATION).alias("how"),
    )
    of_another = F.col("question_id").isNotNull() & ~F.col("asker").eqNullSafe(F.col("answerer"))
    return in_order.where(F.col("refers_to").isNull() & of_another).drop("refers_to")


TABLE = GoldTable(
    name="replies",
    question=question_of("replies"),
    schema=SCHEMA,
    sources=("links", "messages"),
    grain="all",
    transform=transform,
    key=("hub", "answer_id"),
)
