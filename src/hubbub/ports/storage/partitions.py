"""Ownership of partitions, and heartbeats of nodes in the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class PartitionStore(Protocol):
    """Terms of partitions, and the nodes of a cluster."""

    async def acquire_partitions(
        self, partitions: Sequence[int], owner: str, seen: Mapping[int, int] | None = None
    ) -> dict[int, int]:
        """Takes over partitions: each gets a new, higher term, which is returned; writes under
        older terms are refused from then on. `seen`: the terms that the caller has read; a
        partition whose term has changed is left unchanged and omitted."""

    async def read_terms(self, partitions: Sequence[int]) -> dict[int, int]:
        """The current terms of partitions that were ever owned."""

    async def count_beat(self, node: str) -> dict[str, int]:
        """Increments this node's heartbeat counter; returns the counters of all nodes."""

    async def forget_node(self, node: str) -> None:
        """Deletes the counter of a node that left in good order."""
