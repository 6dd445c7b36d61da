"""The load of the coming hours, the nodes that it calls for, and how well that was known before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from hubbub.domain.analytics import question_of
from hubbub.pipeline.gold.columns import (
    ALL_HUBS,
    FLAG,
    REAL,
    TEXT,
    TIME,
    WHOLE,
    recent_hours,
    schema,
    shaped,
)
from hubbub.pipeline.gold.seasonal_model import HELD_BACK_DAYS, TRAINING_DAYS, predicted
from hubbub.pipeline.tables import GoldTable

MEASURES = ("messages_in", "messages_out")
BUSIEST_HUBS = 20
"""Hubs with a forecast of their own, beside the sum of all."""
NINE_OF_TEN = 1.645
"""Deviations to each side between which nine of ten hours lie."""


@dataclass(frozen=True)
class Capacity:
    """What a node can take, as measured (docs/benchmarks.md): stored publishes that are
    acknowledged, and deliveries at one write each, which is the dearest way. `used` is how much
    of a node should be in use at most, so that one may fail or a peak may come."""

    publishes_per_second: float = 14_400
    deliveries_per_second: float = 300_000
    used: float = 0.6


MEASURED = Capacity()

SCHEMA = schema(
    hub=TEXT,
    time=TIME,
    held_back=FLAG,
    messages_in=REAL,
    messages_in_low=REAL,
    messages_in_high=REAL,
    messages_in_actual=WHOLE,
    messages_in_yesterday=WHOLE,
    messages_out=REAL,
    messages_out_low=REAL,
    messages_out_high=REAL,
    messages_out_actual=WHOLE,
    messages_out_yesterday=WHOLE,
    nodes=WHOLE,
)


def transform(sources: Mapping[str, DataFrame], capacity: Capacity = MEASURED) -> DataFrame:
    """The rows that are `held_back` are of the past: what was forecast on the day before, beside
    what came and what the same hour of the day before would have said."""
    days = TRAINING_DAYS + HELD_BACK_DAYS
    traffic = recent_hours(sources["traffic"], days * 24).select(
        "hub", *MEASURES, F.floor(F.unix_seconds("time") / 3600).alias("hour_number"), "time"
    )
    newest = _newest(traffic)
    whole_hours = traffic.where(F.col("hour_number") < newest)
    load = _load(whole_hours, newest).localCheckpoint()
    rows = _beside_yesterday(predicted(load, newest), load)
    return shaped(_with_nodes(_side_by_side(rows), whole_hours, capacity), SCHEMA)


def _newest(traffic: DataFrame) -> int:
    row = traffic.agg(F.max("hour_number")).first()
    return int(row[0]) if row is not None and row[0] is not None else 0


def _load(traffic: DataFrame, newest: int) -> DataFrame:
    """Every hour of the busiest hubs and of their sum, also those in which nothing happened."""
    by_hub = traffic.groupBy("hub", "hour_number").agg(
        *(F.sum(name).alias(name) for name in MEASURES)
    )
    busy = Window.orderBy(F.desc("all"), "hub")
    busiest = (
        by_hub.groupBy("hub")
        .agg(F.sum(F.col(MEASURES[0]) + F.col(MEASURES[1])).alias("all"))
        .withColumn("rank", F.row_number().over(busy))
        .where(F.col("rank") <= BUSIEST_HUBS)
        .select("hub")
    )
    whole = by_hub.groupBy(F.lit(ALL_HUBS).alias("hub"), "hour_number").agg(
        *(F.sum(name).alias(name) for name in MEASURES)
    )
    known = by_hub.join(F.broadcast(busiest), "hub").unionByName(whole)
    hours = (
        known.groupBy("hub")
        .agg(F.min("hour_number").alias("first"))
        .select("hub", F.explode(F.sequence("first", F.lit(newest - 1))).alias("hour_number"))
    )
    filled = hours.join(known, ["hub", "hour_number"], "left").fillna(0, list(MEASURES))
    return filled.unpivot(["hub", "hour_number"], list(MEASURES), "measure", "value")


def _beside_yesterday(rows: DataFrame, load: DataFrame) -> DataFrame:
    yesterday = load.withColumns({"hour_number": F.col("hour_number") + 24}).withColumnRenamed(
        "value", "yesterday"
    )
    joined = rows.join(yesterday, ["hub", "measure", "hour_number"], "left")
    off = F.when(F.col("days_before") > 0, F.pow(F.col("predicted") - F.col("actual"), F.lit(2)))
    spread = Window.partitionBy("hub", "measure")
    return joined.withColumn("off", NINE_OF_TEN * F.sqrt(F.avg(off).over(spread)))


def _side_by_side(rows: DataFrame) -> DataFrame:
    """One row for each hour, with the columns of both measures."""

    def of(measure: str, column: Column, name: str) -> Column:
        return F.max(F.when(F.col("measure") == measure, column)).alias(name)

    expected, off = F.col("predicted"), F.col("off")
    columns = []
    for measure in MEASURES:
        columns += [
            of(measure, expected, measure),
            of(measure, F.when(expected < off, 0.0).otherwise(expected - off), f"{measure}_low"),
            of(measure, expected + off, f"{measure}_high"),
            of(measure, F.col("actual"), f"{measure}_actual"),
            of(measure, F.col("yesterday"), f"{measure}_yesterday"),
        ]
    held_back = (F.col("days_before") > 0).alias("held_back")
    time = F.timestamp_seconds(F.col("hour_number") * 3600).alias("time")
    return rows.groupBy("hub", time, held_back).agg(*columns)


def _with_nodes(rows: DataFrame, traffic: DataFrame, capacity: Capacity) -> DataFrame:
    """Nodes for the busiest five minutes that such an hour usually has."""
    seconds = 3600.0 * capacity.used
    nodes = (
        F.coalesce("messages_in_high", "messages_in") / (capacity.publishes_per_second * seconds)
        + F.coalesce("messages_out_high", "messages_out")
        / (capacity.deliveries_per_second * seconds)
    ) * F.col("peak")
    peak = F.broadcast(_peak(traffic))
    return (
        rows.join(peak, "hub", "left")
        .withColumn("peak", F.coalesce("peak", F.lit(1.0)))
        .withColumn("nodes", F.greatest(F.ceil(F.round(nodes, 6)), F.lit(1)))
    )


def _peak(traffic: DataFrame) -> DataFrame:
    """By how much the busiest slot of an hour is above its mean, over all hours of a hub."""
    slots = traffic.withColumn("all", F.col(MEASURES[0]) + F.col(MEASURES[1]))
    whole = slots.groupBy("time", "hour_number").agg(F.sum("all").alias("all"))
    every = slots.select("hub", "time", "hour_number", "all").unionByName(
        whole.withColumn("hub", F.lit(ALL_HUBS))
    )
    hours = every.groupBy("hub", "hour_number").agg(
        (F.max("all") * 12).alias("busiest"), F.sum("all").alias("sum")
    )
    return hours.groupBy("hub").agg(
        (F.sum("busiest") / F.nullif(F.sum("sum"), F.lit(0))).alias("peak")
    )


def make_table(capacity: Capacity = MEASURED) -> GoldTable:
    return GoldTable(
        name="forecast",
        question=question_of("forecast"),
        schema=SCHEMA,
        sources=("traffic",),
        grain="all",
        transform=partial(transform, capacity=capacity),
        key=("hub", "time", "held_back"),
    )


TABLE = make_table()
