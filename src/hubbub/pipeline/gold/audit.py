"""The exactly-once audit: what was lost, doubled or out of order, by producer and subscriber."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from hubbub.domain.analytics import question_of
from hubbub.domain.journal import ACKNOWLEDGED, DEAD_LETTERED, DROPPED, PUBLISHED, RECEIVED
from hubbub.pipeline.gold.columns import TEXT, TIME, WHOLE, schema, shaped, total
from hubbub.pipeline.tables import GoldTable

SCHEMA = schema(
    kind=TEXT,
    hub=TEXT,
    channel=TEXT,
    epoch=TEXT,
    user=TEXT,
    name=TEXT,
    verdict=TEXT,
    messages=WHOLE,
    lost=WHOLE,
    doubled=WHOLE,
    out_of_order=WHOLE,
    redelivered=WHOLE,
    waiting=WHOLE,
    dead=WHOLE,
    first=WHOLE,
    last=WHOLE,
    since=TIME,
)
PRODUCER, SUBSCRIPTION, SESSION = "producer", "subscription", "session"
_WHOM = ("kind", "hub", "channel", "epoch", "user", "name")
_DONE = "done"
"""Acknowledged or given up: in both cases it will not come again."""


def transform(sources: Mapping[str, DataFrame]) -> DataFrame:
    """One row for each producer, for each durable subscription, and for each session from which
    live messages were dropped.

    lost: numbers between the first and the last that never came. doubled: a producer's sequence
    that was stored twice, or a message that a subscription finished twice. out_of_order: came
    after a higher number. redelivered: handed out again, which is no fault by itself. waiting:
    handed out, neither finished nor given up yet."""
    runs = sources["runs"].withColumn("what", F.col("kind")).withColumn("kind", _kind())
    over = runs.where(F.col("what").isin(ACKNOWLEDGED, DEAD_LETTERED))
    together = (
        _covered(runs.where(F.col("what") != DROPPED))
        .unionByName(_covered(over.withColumn("what", F.lit(_DONE))))
        .unionByName(_late(runs), allowMissingColumns=True)
        .unionByName(_dropped(runs), allowMissingColumns=True)
    )
    found = together.groupBy(*_WHOM).agg(*_figures())
    verdict = (
        F.when(F.col("lost") > 0, "lost")
        .when(F.col("doubled") > 0, "doubled")
        .when(F.col("out_of_order") > 0, "out of order")
        .when(F.col("waiting") > 0, "waiting")
        .otherwise("exactly once")
    )
    return shaped(found.withColumn("verdict", verdict), SCHEMA)


def _kind() -> Column:
    return (
        F.when(F.col("kind") == PUBLISHED, PRODUCER)
        .when(F.col("kind") == DROPPED, SESSION)
        .otherwise(SUBSCRIPTION)
    )


def _covered(runs: DataFrame) -> DataFrame:
    """How many numbers there are, each once and with every copy; runs may overlap."""
    by_number = Window.partitionBy(*_WHOM, "what").orderBy("first", "last")
    before = by_number.rowsBetween(Window.unboundedPreceding, -1)
    reached = F.coalesce(F.max("last").over(before), F.col("first") - 1)
    new = F.greatest(F.col("last") - F.greatest(reached, F.col("first") - 1), F.lit(0))
    return (
        runs.withColumn("new", new)
        .groupBy(*_WHOM, "what")
        .agg(
            F.sum("count").alias("copies"),
            F.sum("new").alias("distinct"),
            F.min("first").alias("first"),
            F.max("last").alias("last"),
            F.min("began").alias("since"),
        )
    )


def _late(runs: DataFrame) -> DataFrame:
    """Numbers that came after a higher one, when they came for the first time."""
    new = runs.where(F.col("what").isin(PUBLISHED, RECEIVED) & ~F.col("again"))
    in_order = Window.partitionBy(*_WHOM).orderBy("began", "place", "first")
    reached = F.max("last").over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    late = F.when(
        F.col("first") < reached, F.least(F.col("last"), reached - 1) - F.col("first") + 1
    )
    return new.withColumn("late", late).groupBy(*_WHOM).agg(total("late").alias("late"))


def _dropped(runs: DataFrame) -> DataFrame:
    return (
        runs.where(F.col("what") == DROPPED)
        .groupBy(*_WHOM)
        .agg(total("count").alias("dropped"), F.min("began").alias("since"))
    )


def _figures() -> Iterable[Column]:
    def of(name: str, *what: str) -> Column:
        return total(F.when(F.col("what").isin(*what), F.col(name)))

    came = of("distinct", PUBLISHED, RECEIVED)
    first = F.min(F.when(F.col("what").isin(PUBLISHED, RECEIVED), F.col("first")))
    last = F.max(F.when(F.col("what").isin(PUBLISHED, RECEIVED), F.col("last")))
    figures = {
        "messages": came,
        "lost": F.coalesce(last - first + 1 - came, F.lit(0)) + total("dropped"),
        "doubled": of("copies", PUBLISHED, ACKNOWLEDGED) - of("distinct", PUBLISHED, ACKNOWLEDGED),
        "out_of_order": total("late"),
        "redelivered": of("copies", RECEIVED) - of("distinct", RECEIVED),
        "waiting": F.greatest(of("distinct", RECEIVED) - of("distinct", _DONE), F.lit(0)),
        "dead": of("distinct", DEAD_LETTERED),
        "first": first,
        "last": last,
        "since": F.min("since"),
    }
    return [column.alias(name) for name, column in figures.items()]


TABLE = GoldTable(
    name="audit",
    question=question_of("audit"),
    schema=SCHEMA,
    sources=("runs",),
    grain="all",
    transform=transform,
    key=("kind", "hub", "channel", "epoch", "user", "name"),
)
