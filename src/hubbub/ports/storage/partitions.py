"""Who owns which partition, and which nodes reach the database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class PartitionStore(Protocol):
    """Terms of partitions, and the nodes of a cluster."""

    async def acquire_partitions(self, partitions: Sequence[int], owner: str) -> dict[int, int]:
        """Take the partitions over: each gets a term higher than any before, which is returned.
        From then on every write under an older term is refused."""

    async def count_beat(self, node: str) -> dict[str, int]:
        """Raise this node's number by one; answers the numbers of all nodes."""

    async def forget_node(self, node: str) -> None:
        """It left in good order: it has no number any more."""
