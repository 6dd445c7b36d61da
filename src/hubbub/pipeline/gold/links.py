"""The messages that belong to a conversation or answer another one, without their content."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hubbub.domain.analytics import question_of
from hubbub.pipeline.gold.columns import TEXT, TIME, WHOLE, schema, shaped, who
from hubbub.pipeline.tables import GoldTable

SCHEMA = schema(
    hub=TEXT,
    message_id=TEXT,
    at=TIME,
    serial=WHOLE,
    channel=TEXT,
    peer=TEXT,
    conversation_id=TEXT,
    refers_to=TEXT,
    hour=TEXT,
)


def transform(sources: Mapping[str, DataFrame]) -> DataFrame:
    messages = sources["messages"]
    linked = F.col("conversation_id").isNotNull() | F.col("refers_to").isNotNull()
    return shaped(messages.where(linked).withColumn("peer", who()), SCHEMA)


TABLE = GoldTable(
    name="links",
    question=question_of("links"),
    schema=SCHEMA,
    sources=("messages",),
    grain="hour",
    transform=transform,
    key=("hub", "message_id"),
)
