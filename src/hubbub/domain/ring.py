"""The ring: the assignment of partitions to nodes, computed from the members' names alone.

Every node computes it independently, so it depends on nothing but the members. Nodes rank
partitions and partitions rank nodes by a hash; a partition goes to the first node of its ranking
that does not yet have its share of higher-ranked partitions. This stable matching moves few
partitions when a member joins or leaves, and gives every node the mean share, rounded up or down.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b, shake_128
from heapq import heappush, heappushpop
from struct import unpack

import msgspec

from hubbub.domain.names import PARTITIONS


class Ring(msgspec.Struct, frozen=True):
    """`owners` holds the node of each partition, "" if there is none."""

    version: str
    owners: tuple[str, ...]

    def partitions_of(self, node: str) -> list[int]:
        return [partition for partition, owner in enumerate(self.owners) if owner == node]


def make_ring(members: Iterable[tuple[str, str]]) -> Ring:
    """Computes the ring from pairs of a node's name and the name of its incarnation. The owners
    depend on the node names only; the version depends on both."""
    lives = sorted(members)
    nodes = sorted({node for node, _ in lives})
    version = blake2b(repr(lives).encode(), digest_size=8).hexdigest()
    return Ring(version, _match(tuple(nodes)) if nodes else ("",) * PARTITIONS)


NO_RING = make_ring(())


@lru_cache(maxsize=32)
def _match(nodes: tuple[str, ...]) -> tuple[str, ...]:
    """Stable matching: partitions propose to nodes in order of preference; a node with a full share
    keeps the partitions that it ranks highest."""
    scores = {node: _scores(node) for node in nodes}
    shares = _shares(nodes)
    choices = [
        sorted(nodes, key=lambda node: scores[node][partition]) for partition in range(PARTITIONS)
    ]
    held: dict[str, list[tuple[int, int]]] = {node: [] for node in nodes}
    for partition in range(PARTITIONS):
        homeless = partition
        while True:
            node = choices[homeless].pop()
            offer = (scores[node][homeless], homeless)
            if len(held[node]) < shares[node]:
                heappush(held[node], offer)
                break
            _, homeless = heappushpop(held[node], offer)
    owners = [""] * PARTITIONS
    for node, offers in held.items():
        for _, partition in offers:
            owners[partition] = node
    return tuple(owners)


def _shares(nodes: Sequence[str]) -> dict[str, int]:
    """The number of partitions per node: the mean, rounded up for as many nodes as necessary."""
    share, left = divmod(PARTITIONS, len(nodes))
    return {node: share + (place < left) for place, node in enumerate(nodes)}


def _scores(node: str) -> tuple[int, ...]:
    """The mutual ranking of a node and each partition."""
    return unpack(f"<{PARTITIONS}Q", shake_128(node.encode()).digest(8 * PARTITIONS))
