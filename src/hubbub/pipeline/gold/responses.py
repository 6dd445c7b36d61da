"""How fast each peer answers, by day."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hubbub.domain.analytics import question_of
from hubbub.pipeline.gold import histograms
from hubbub.pipeline.gold.columns import TEXT, WHOLE, schema, shaped, with_fields
from hubbub.pipeline.tables import GoldTable, day_of

SCHEMA = with_fields(
    schema(hub=TEXT, peer=TEXT, day=TEXT, answers=WHOLE, askers=WHOLE),
    histograms.fields("response"),
)


def transform(sources: Mapping[str, DataFrame]) -> DataFrame:
    """Answers to oneself, and answers to questions that the journal does not have, are no
    measure of how fast somebody is."""
    other = ~F.col("asker").eqNullSafe(F.col("answerer"))
    answers = (
        sources["replies"]
        .where(F.col("response_time").isNotNull() & F.col("answerer").isNotNull() & other)
        .withColumns({"peer": F.col("answerer"), "day": day_of(F.col("answered_at"))})
    )
    keys = ["hub", "peer", "day"]
    times = histograms.added(
        histograms.of_each(answers, "response_time", "response"), keys, "response"
    )
    askers = answers.groupBy(*keys).agg(F.count_distinct("asker").alias("askers"))
    joined = times.join(askers, keys).withColumn("answers", F.col("response_count"))
    return shaped(histograms.described(joined, "response"), SCHEMA)


TABLE = GoldTable(
    name="responses",
    question=question_of("responses"),
    schema=SCHEMA,
    sources=("replies",),
    grain="all",
    transform=transform,
    key=("hub", "peer", "day"),
)
