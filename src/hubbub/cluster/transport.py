"""What the bus between nodes is built on: a carrier of datagrams, and knowledge of the ring."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Transport(Protocol):
    """May lose, double, delay and reorder what it carries; never changes it."""

    def listen(self, receive: Callable[[bytes], None]) -> None:
        """Call `receive` with each datagram for this node, on the event loop's thread."""

    def send(self, node: str, data: bytes) -> None:
        """Try to bring `data` to the node. Never blocks and never raises."""


class Owners(Protocol):
    """What the bus must know about the ring. It is told when that changes."""

    def owner_of(self, partition: int) -> str:
        """The node that owns a partition, or is about to; "" while nobody is known."""

    def serves(self, partition: int) -> bool:
        """Whether this node owns the partition and has taken it over."""
