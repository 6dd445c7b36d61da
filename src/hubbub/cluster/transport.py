"""What carries datagrams between nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Transport(Protocol):
    """May lose, double, delay and reorder what it carries; never changes it."""

    def listen(self, receive: Callable[[bytes], None]) -> None:
        """Call `receive` with each datagram for this node, on the event loop's thread."""

    def send(self, node: str, data: bytes) -> None:
        """Try to bring `data` to the node. Never blocks and never raises."""
