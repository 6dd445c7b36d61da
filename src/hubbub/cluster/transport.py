"""Ports of the bus between nodes: a carrier of datagrams, and knowledge of the ring."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Transport(Protocol):
    """May lose, duplicate, delay and reorder datagrams; never changes them."""

    def listen(self, receive: Callable[[bytes], None]) -> None:
        """Calls `receive` with each datagram for this node, on the event loop's thread."""

    def send(self, node: str, data: bytes) -> None:
        """Tries to send `data` to the node. Never blocks and never raises."""


class Owners(Protocol):
    """The bus's view of the ring. It is told of changes."""

    def owner_of(self, partition: int) -> str:
        """The node that owns a partition, or is about to; "" while there is none."""

    def serves(self, partition: int) -> bool:
        """Whether this node owns the partition and has taken it over."""

    def fenced(self, partition: int) -> None:
        """The store says that another node owns the partition."""
