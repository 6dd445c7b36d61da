"""Who owns which partition, and which nodes reach the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class PartitionStore(Protocol):
    """Terms of partitions, and the nodes of a cluster."""

    async def acquire_partitions(
        self, partitions: Sequence[int], owner: str, seen: Mapping[int, int] | None = None
    ) -> dict[int, int]:
        """Take the partitions over: each gets a term higher than any before, which is returned.
        From then on every write under an older term is refused. `seen`: the terms that the caller
        has read; a partition whose term is another one by now stays as it is, and is left out."""

    async def read_terms(self, partitions: Sequence[int]) -> dict[int, int]:
        """The current terms of those that anybody ever owned."""

    async def count_beat(self, node: str) -> dict[str, int]:
        """Raise this node's number by one; answers the numbers of all nodes."""

    async def forget_node(self, node: str) -> None:
        """It left in good order: it has no number any more."""
