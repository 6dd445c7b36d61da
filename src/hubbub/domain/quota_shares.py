"""A node's share of a hub's quotas, computed from the reports of the cluster's nodes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

IDLE_PART = 0.2
"""This part of a rate is divided equally among all nodes, so that an idle node can start."""


class Share(msgspec.Struct, frozen=True, array_like=True):
    """A node's share of a hub's quotas: the sessions and channels that it may hold until its next
    report, and its demand per second, including refused requests."""

    sessions: int = 0
    channels: int = 0
    messages: float = 0.0
    deliveries: float = 0.0
    streams: float = 0.0


def count_limit(quota: int, own: int, others: Sequence[int], rank: int) -> int:
    """How many of a counted resource this node may hold. It holds `own`; the `others` may hold so
    many each. The node gets an equal part of what is free; a remainder goes to the lowest ranks (0
    to the number of others).

    Nodes that repeat this, in turn or simultaneously, never exceed `quota` together (more than four
    at once may exceed it by one each), and unused parts move to the other nodes.
    """
    free = max(0, quota - own - sum(others))
    each, left = divmod(free, len(others) + 1)
    return own + each + (rank < left)


def rate_share(quota: float, own: float, others: Sequence[float]) -> float:
    """How much of a rate this node may use: by demand, except for `IDLE_PART`."""
    nodes = len(others) + 1
    demand = own + sum(others)
    if demand <= 0:
        return quota / nodes
    return quota * ((1 - IDLE_PART) * own / demand + IDLE_PART / nodes)
