"""Components that Spark finds in turns are those that one task finds at once."""

from __future__ import annotations

import random

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

from hubbub.pipeline.jobs.labels import labels
from hubbub.pipeline.transforms.components import roots

pytestmark = [pytest.mark.spec("PIPE-03"), pytest.mark.timeout(300)]


def found(spark: SparkSession, edges: list[tuple[int, int]], most: int) -> dict[int, int]:
    def kept(pairs: DataFrame) -> tuple[DataFrame, int]:
        rows = pairs.localCheckpoint()
        return rows, rows.count()

    frame = spark.createDataFrame(edges, "a long, b long").repartition(4)
    rows = labels(frame, len(edges), kept, most).collect()
    assert len(rows) == len({row["node"] for row in rows})
    return {row["node"]: row["label"] for row in rows}


@pytest.mark.parametrize(
    "most",
    [1000, 200, 2],
    ids=["in one task", "rest in one task", "contracted to the end"],
)
def test_random_graphs_chains_stars_and_loops_have_the_components_of_one_task(
    spark: SparkSession, most: int
) -> None:
    chance = random.Random(5)
    names = list(range(400))
    chance.shuffle(names)  # labels cannot simply be handed down
    chain = [(names[place], names[place + 1]) for place in range(199)]
    star = [(names[200], names[place]) for place in range(201, 230)]
    some = [
        (names[chance.randrange(230, 400)], names[chance.randrange(230, 400)]) for _ in range(90)
    ]
    edges = [*chain, *star, *some, (400, 400)]
    ends = np.array(edges)
    at_once = roots(ends[:, 0], ends[:, 1], 401)
    nodes = {node for edge in edges for node in edge}
    assert found(spark, edges, most) == {node: at_once[node] for node in nodes}
