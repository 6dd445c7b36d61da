"""Connected components of a graph, for threads that cross conversations.

A small graph is taken apart in one go by this process. A large one stays in Spark, where two steps
take turns until nothing changes (Kiveris and others, "Connected Components in MapReduce and
Beyond", 2014). Each links the neighbours of a node to the smallest among them: the large step those
that are larger than the node, the small step the others. A chain of n messages needs about log n
rounds, where handing labels from neighbour to neighbour would need n."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

FEW_EDGES = 500_000
"""Up to this many are faster here than the rounds of Spark, and take some 200 MB."""
MAX_ROUNDS = 64
"""A bound for what cannot happen: the number of rounds grows with the logarithm of the nodes."""


def components(edges: DataFrame, few: int = FEW_EDGES) -> DataFrame:
    """`edges` has `a` and `b`, ids of nodes that can be ordered. Answers `node` and `root`, the
    smallest node of its component, for every node that has an edge but the root itself."""
    current = _kept(edges.select("a", "b").where(F.col("a") != F.col("b")))
    signature = _signature(current)
    if signature[0] <= few:
        return _here(current)
    for _ in range(MAX_ROUNDS):
        following = _kept(_small_step(_large_step(current)))
        changed = _signature(following)
        current.unpersist()
        current = following
        if changed == signature:
            break
        signature = changed
    return current.select(F.col("a").alias("node"), F.col("b").alias("root"))


def _here(edges: DataFrame) -> DataFrame:
    """Each node points to a smaller one of its component, and in the end to the smallest."""
    table = edges.toArrow()
    parents: dict[str, str] = {}

    def root_of(node: str) -> str:
        root = node
        while (above := parents.get(root, root)) != root:
            root = above
        while (above := parents.get(node, node)) != root:
            parents[node] = root
            node = above
        return root

    for a, b in zip(table["a"].to_pylist(), table["b"].to_pylist(), strict=True):
        first, second = sorted((root_of(a), root_of(b)))
        if first != second:
            parents[second] = first
    nodes = list(parents)
    found = pa.table({"node": nodes, "root": [root_of(node) for node in nodes]}, schema=_FOUND)
    return edges.sparkSession.createDataFrame(found)


_FOUND = pa.schema([("node", pa.string()), ("root", pa.string())])


def _kept(frame: DataFrame) -> DataFrame:
    """Computed once: without this, each round would compute all rounds before it again."""
    return frame.distinct().localCheckpoint()


def _signature(edges: DataFrame) -> tuple[int, int]:
    row = edges.agg(
        F.count(F.lit(1)).alias("edges"),
        F.coalesce(F.bit_xor(F.xxhash64("a", "b")), F.lit(0)).alias("content"),
    ).first()
    assert row is not None
    return int(row["edges"]), int(row["content"])


def _large_step(edges: DataFrame) -> DataFrame:
    """Every neighbour that is larger than the node goes to the node's smallest neighbour."""
    both = edges.unionByName(edges.select(F.col("b").alias("a"), F.col("a").alias("b")))
    smallest = F.least(F.min("b").over(Window.partitionBy("a")), F.col("a"))
    linked = both.withColumn("root", smallest).where(F.col("b") > F.col("a"))
    return linked.select(F.col("b").alias("a"), F.col("root").alias("b"))


def _small_step(edges: DataFrame) -> DataFrame:
    """The node and its smaller neighbours go to the smallest of them."""
    down = edges.select(F.greatest("a", "b").alias("a"), F.least("a", "b").alias("b")).distinct()
    rooted = down.withColumn("root", F.min("b").over(Window.partitionBy("a")))
    neighbours = rooted.select(F.col("b").alias("a"), F.col("root").alias("b"))
    themselves = rooted.select("a", F.col("root").alias("b"))
    return neighbours.unionByName(themselves).where(F.col("a") != F.col("b"))
