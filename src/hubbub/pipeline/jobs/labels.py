"""Connected components of a graph that no task can hold: labels handed on by Spark, in turns."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

Kept = Callable[[DataFrame], DataFrame]


def labels(edges: DataFrame, kept: Kept) -> DataFrame:
    """The least node of the component of each node, as columns `node` and `label`. `edges` has the
    nodes `a` and `b`, which are long; a node alone may have an edge to itself. `kept` computes a
    frame and gives its rows as a frame without a history: plans would double with each turn.

    Alternates large stars, in which every larger neighbour of a node is linked to the least one,
    and small stars, in which every smaller one is, until nothing changes: a chain of n nodes needs
    about log n turns. A turn shuffles pairs of numbers, and Spark spills them."""
    pairs = edges.select(F.greatest("a", "b").alias("a"), F.least("a", "b").alias("b")).distinct()
    stars, mark = kept(pairs), None
    while mark != (now := _mark(stars)):
        mark, stars = now, kept(_small_stars(_large_stars(stars)))
    leaves = stars.select(F.col("a").alias("node"), F.col("b").alias("label"))
    middles = leaves.select(F.col("label").alias("node"), "label")
    every = leaves.unionByName(middles)
    return every.groupBy("node").agg(F.min("label").alias("label"))


def _large_stars(pairs: DataFrame) -> DataFrame:
    both = pairs.unionByName(pairs.select(F.col("b").alias("a"), F.col("a").alias("b")))
    least = F.least("a", F.min("b").over(Window.partitionBy("a")))
    return (
        both.withColumn("least", least)
        .where("b >= a")
        .select(F.col("b").alias("a"), F.col("least").alias("b"))
    )


def _small_stars(pairs: DataFrame) -> DataFrame:
    least = F.min("b").over(Window.partitionBy("a"))
    linked = pairs.withColumn("least", least)
    others = linked.where("b > least").select(F.col("b").alias("a"), F.col("least").alias("b"))
    return linked.select("a", F.col("least").alias("b")).unionByName(others).distinct()


def _mark(pairs: DataFrame) -> tuple[object, ...]:
    """The same for the same pairs."""
    total = F.sum(F.xxhash64("a", "b").cast("decimal(38,0)"))
    return tuple(pairs.agg(F.count("*"), total).collect()[0])
