"""A network in memory that loses, doubles, delays and reorders, as its seed says."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import msgspec


class Faults(msgspec.Struct, frozen=True):
    """Shares between 0 and 1; delays in seconds. Different delays reorder."""

    lost: float = 0.0
    doubled: float = 0.0
    longest_delay_seconds: float = 0.0


CALM = Faults()
STORMY = Faults(lost=0.2, doubled=0.2, longest_delay_seconds=0.004)


class UnreliableNetwork:
    """Carries datagrams between the nodes of one event loop."""

    def __init__(self, seed: int, faults: Faults = STORMY) -> None:
        print(f"network seed {seed}, {faults}")
        self.faults = faults
        self.cut: set[tuple[str, str]] = set()
        """Pairs (sender, receiver) between which nothing passes."""
        self._random = random.Random(seed)
        self._listeners: dict[str, Callable[[bytes], None]] = {}
        self.everyone: dict[str, Callable[[str, bytes], None]] = {}

    def transport(self, node: str) -> UnreliableTransport:
        return UnreliableTransport(self, node)

    def listen(self, node: str, receive: Callable[[bytes], None]) -> None:
        self._listeners[node] = receive

    def carry(self, sender: str, receiver: str, data: bytes) -> None:
        copies = 1 + (self._random.random() < self.faults.doubled)
        for _ in range(copies):
            if self._random.random() < self.faults.lost or (sender, receiver) in self.cut:
                continue
            delay = self._random.random() * self.faults.longest_delay_seconds
            asyncio.get_running_loop().call_later(delay, self._deliver, receiver, data)

    def carry_to_all(self, sender: str, data: bytes) -> None:
        """Heartbeats are many: none is doubled or delayed, but they are lost and cut off."""
        loop = asyncio.get_running_loop()
        for receiver, hear in list(self.everyone.items()):
            if self._random.random() >= self.faults.lost and (sender, receiver) not in self.cut:
                loop.call_soon(hear, sender, data)

    def _deliver(self, receiver: str, data: bytes) -> None:
        listener = self._listeners.get(receiver)
        if listener is not None:
            listener(data)


class UnreliableTransport:
    """One node's end of it."""

    def __init__(self, network: UnreliableNetwork, node: str) -> None:
        self._network = network
        self._node = node

    def listen(self, receive: Callable[[bytes], None]) -> None:
        self._network.listen(self._node, receive)

    def send(self, node: str, data: bytes) -> None:
        self._network.carry(self._node, node, data)

    def say_to_all(self, data: bytes) -> None:
        self._network.carry_to_all(self._node, data)

    def listen_to_all(
        self, hear: Callable[[str, bytes], None], alive: Callable[[str, str], None]
    ) -> None:
        self._network.everyone[self._node] = hear
