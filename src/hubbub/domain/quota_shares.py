"""A node's share of a hub's quotas, from what the nodes of a cluster tell each other."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

IDLE_PART = 0.2
"""Of a rate: this part is always the same for all nodes, so that one that was idle can begin."""


class Share(msgspec.Struct, frozen=True, array_like=True):
    """A node's share of a hub's quotas: the sessions and channels that it may have until its next
    report, and the demand of a second, refused requests included."""

    sessions: int = 0
    channels: int = 0
    messages: float = 0.0
    deliveries: float = 0.0


def count_limit(quota: int, own: int, others: Sequence[int], rank: int) -> int:
    """How many of something this node may have, which has `own` of it, where the `others` may have
    so many: of what is free, an equal part. What cannot be divided goes to the lowest ranks, of 0
    to the number of others.

    Nodes that do this over and over, in turns or all at once, never have more than `quota`
    together (with more than four, all at once, one more each at most), and what one of them does
    not use comes to the others."""
    free = max(0, quota - own - sum(others))
    each, left = divmod(free, len(others) + 1)
    return own + each + (rank < left)


def rate_share(quota: float, own: float, others: Sequence[float]) -> float:
    """How much of a rate this node may use: by demand, but for `IDLE_PART`."""
    nodes = len(others) + 1
    demand = own + sum(others)
    if demand <= 0:
        return quota / nodes
    return quota * ((1 - IDLE_PART) * own / demand + IDLE_PART / nodes)
