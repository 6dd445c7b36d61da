"""Connected components of a graph, for threads that cross conversations."""

from __future__ import annotations

import numpy as np

from hubbub.pipeline.grouping import Integers


def roots(a: Integers, b: Integers, nodes: int) -> Integers:
    """The smallest node of each one's component, for nodes from 0 on and edges from `a` to `b`.

    Trees are hung below smaller ones and flattened in turns, all at once, until every edge lies
    within one: a chain of n messages needs about log n turns, where handing labels from neighbour
    to neighbour would need n."""
    parents = np.arange(nodes)
    while len(a):
        np.minimum.at(parents, np.maximum(a, b), np.minimum(a, b))
        while not np.array_equal(above := parents[parents], parents):
            parents = above
        a, b = parents[a], parents[b]
        apart = a != b
        a, b = a[apart], b[apart]
    return parents
