"""Connected components of a graph that no task can hold: contracted by Spark's tasks, in turns."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from hubbub.pipeline.catalogue import SCRATCH
from hubbub.pipeline.jobs.work import Batches
from hubbub.pipeline.transforms.components import roots

Kept = Callable[[DataFrame], tuple[DataFrame, int]]
_PAIRS = SCRATCH["_pairs"].schema


def labels(edges: DataFrame, count: int, kept: Kept, most: int) -> DataFrame:
    """The least node of the component of each node, as columns `node` and `label`. `edges` has the
    nodes `a` and `b`, which are long and as good as random; a node alone may have an edge to
    itself; `count` is about how many there are. `kept` computes a frame, and gives its rows as a
    frame without a history, and their count: plans would double with each turn.

    Up to `most` edges are contracted in one task. Of more, each task finds the components of its
    own part of the graph, and links their nodes to the least one. What nodes of several parts then
    bring together is a graph of least nodes only, which is much smaller, a third at the worst,
    since the order of nodes is random: its labels are those of all. A turn shuffles pairs of
    numbers three times, and Spark spills them."""
    if count <= most:
        return edges.repartition(1).mapInArrow(_contracted, "a long, b long").toDF("node", "label")
    stars, _ = kept(edges.mapInArrow(_contracted, "a long, b long"))
    linked = stars.withColumn("least", F.min("b").over(Window.partitionBy("a")))
    apart = linked.where("b > least").select(F.col("b").alias("a"), F.col("least").alias("b"))
    between, count = kept(apart.distinct())
    if not count:
        return stars.select(F.col("a").alias("node"), F.col("b").alias("label")).distinct()
    above = labels(between, count, kept, most)
    every = stars.join(above.withColumnRenamed("node", "b"), "b", "left")
    label = F.coalesce("label", "b").alias("label")
    return every.select(F.col("a").alias("node"), label).distinct()


def _contracted(batches: Batches) -> Batches:
    """Each node of a part of the graph, and the least node that it is connected with there."""
    edges = pa.Table.from_batches([batch.cast(_PAIRS) for batch in batches], _PAIRS)
    nodes, places = np.unique(np.concatenate([edges["a"], edges["b"]]), return_inverse=True)
    found = nodes[roots(places[: len(edges)], places[len(edges) :], len(nodes))]
    yield pa.RecordBatch.from_arrays([pa.array(nodes), pa.array(found)], schema=_PAIRS)
