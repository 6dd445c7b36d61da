"""Words in the text of messages, by the hour, where payloads are in the journal."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from hubbub.domain.analytics import question_of
from hubbub.pipeline.gold.columns import TEXT, WHOLE, schema, shaped
from hubbub.pipeline.gold.stop_words import STOP_WORDS
from hubbub.pipeline.tables import GoldTable

SCHEMA = schema(hub=TEXT, term=TEXT, messages=WHOLE, hour=TEXT)

READ_CHARACTERS = 1000
"""Of each message; what it is about is said by then."""
MIN_CHARACTERS, MAX_CHARACTERS = 3, 40
MIN_MESSAGES = 2
"""A word of a single message in an hour is no trend, and most words are such."""

_NO_LETTER = r"[^\p{L}\p{N}]+"
_JSON_NAMES_AND_ESCAPES = r'"[^"\\]*"\s*:|\\(?:u[0-9a-fA-F]{4}|.)'


def transform(sources: Mapping[str, DataFrame]) -> DataFrame:
    """Counts messages, not repetitions within one."""
    messages = sources["messages"].where(F.col("payload").isNotNull())
    words = messages.select(
        "hub", "hour", F.explode(F.array_distinct(F.split(_text(), _NO_LETTER))).alias("term")
    )
    counted = (
        words.where(F.char_length("term").between(MIN_CHARACTERS, MAX_CHARACTERS))
        .groupBy("hub", "term", "hour")
        .agg(F.count(F.lit(1)).alias("messages"))
    )
    # Looked at once for each word, and not for each time that it was said.
    telling = ~F.col("term").isin(*STOP_WORDS) & F.col("term").rlike(r"\p{L}")
    return shaped(counted.where((F.col("messages") >= MIN_MESSAGES) & telling), SCHEMA)


def _text() -> Column:
    """The text of a payload that is text, in small letters; null for any other. Of JSON, what it
    says and not the names of its fields."""
    kind = F.lower(F.coalesce("content_type", F.lit("text/plain")))
    text = F.substring(F.try_validate_utf8(F.col("payload").cast("string")), 1, READ_CHARACTERS)
    json = kind.contains("json")
    said = F.when(json, F.regexp_replace(text, _JSON_NAMES_AND_ESCAPES, " ")).when(
        kind.startswith("text/"), text
    )
    return F.lower(said)


TABLE = GoldTable(
    name="terms",
    question=question_of("terms"),
    schema=SCHEMA,
    sources=("messages",),
    grain="hour",
    transform=transform,
    key=("hub", "term", "hour"),
)
