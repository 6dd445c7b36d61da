"""Connected components of a graph too large for one task, computed by repeated contraction."""

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
    """The smallest node of each node's component, as columns `node` and `label`. `edges` has the
    nodes `a` and `b`, random 64-bit integers; an isolated node may have an edge to itself; `count`
    is the approximate number of edges. `kept` materialises a frame and returns it, without its
    lineage, and its number of rows: otherwise plans would double with each iteration.

    Up to `most` edges are contracted in one task. With more, each task finds the components of its
    part of the graph, and links their nodes to the smallest one. The remaining links between parts
    form a graph of smallest nodes, which is at most a third as large, since the order of nodes is
    random; its labels apply to all nodes. An iteration shuffles pairs of integers three times, and
    Spark spills them if necessary.
    """
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
    """The nodes of a part of the graph, each with the smallest node of its component in that
    part."""
    edges = pa.Table.from_batches([batch.cast(_PAIRS) for batch in batches], _PAIRS)
    nodes, places = np.unique(np.concatenate([edges["a"], edges["b"]]), return_inverse=True)
    found = nodes[roots(places[: len(edges)], places[len(edges) :], len(nodes))]
    yield pa.RecordBatch.from_arrays([pa.array(nodes), pa.array(found)], schema=_PAIRS)
