"""The ring: which node owns which partition, told from the names of the members alone.

Every node computes it for itself, so it must not depend on anything but the members. Each node
ranks the partitions, and each partition ranks the nodes, by a hash; a partition goes to the first
node of its choice that does not have its share of partitions that it ranks higher. Nobody is then
better off with another (a stable matching), and that is why few partitions move when a member
comes or goes, while every node has the mean share, rounded up or down.
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
    """`owners` has the node of each partition, "" where there is none."""

    version: str
    owners: tuple[str, ...]

    def partitions_of(self, node: str) -> list[int]:
        return [partition for partition, owner in enumerate(self.owners) if owner == node]


def make_ring(members: Iterable[tuple[str, str]]) -> Ring:
    """The ring of nodes, each with its name and the name of its present life. Who owns what depends
    on the names only; the version, on both."""
    lives = sorted(members)
    nodes = sorted({node for node, _ in lives})
    version = blake2b(repr(lives).encode(), digest_size=8).hexdigest()
    return Ring(version, _match(tuple(nodes)) if nodes else ("",) * PARTITIONS)


NO_RING = make_ring(())


@lru_cache(maxsize=32)
def _match(nodes: tuple[str, ...]) -> tuple[str, ...]:
    """Partitions propose to nodes in the order of their choice; a node that has its share keeps
    those that it ranks highest."""
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
    """The mean, rounded up for as many nodes as it takes."""
    share, left = divmod(PARTITIONS, len(nodes))
    return {node: share + (place < left) for place, node in enumerate(nodes)}


def _scores(node: str) -> tuple[int, ...]:
    """How highly a node and each partition think of each other."""
    return unpack(f"<{PARTITIONS}Q", shake_128(node.encode()).digest(8 * PARTITIONS))
