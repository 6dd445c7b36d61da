"""Connected components of a graph, for threads that span conversations."""

from __future__ import annotations

import numpy as np

from hubbub.pipeline.grouping import Integers


def roots(a: Integers, b: Integers, nodes: int) -> Integers:
    """The smallest node of each node's component, for nodes numbered from 0 and edges from `a` to
    `b`.

    Trees are linked to smaller ones and flattened, all in parallel, until every edge lies within
    one tree: a chain of n messages needs about log n iterations, while passing labels between
    neighbours would need n.
    """
    parents = np.arange(nodes)
    while len(a):
        np.minimum.at(parents, np.maximum(a, b), np.minimum(a, b))
        while not np.array_equal(above := parents[parents], parents):
            parents = above
        a, b = parents[a], parents[b]
        apart = a != b
        a, b = a[apart], b[apart]
    return parents
