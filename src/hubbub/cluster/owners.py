"""Who owns which partition, as one node sees it."""

from __future__ import annotations

from typing import Protocol


class Owners(Protocol):
    """What the bus must know about the ring. It is told when that changes."""

    def owner_of(self, partition: int) -> str:
        """The node that owns a partition, or is about to; "" while nobody is known."""

    def serves(self, partition: int) -> bool:
        """Whether this node owns the partition and has taken it over."""
