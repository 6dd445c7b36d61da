"""Loopback addresses, each a host of its own to the hub; some of them dead."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator, Sequence

from benchmarks.webhooks.receiver import listen


def addresses(count: int, network: int = 1) -> list[str]:
    """Of 127.`network`.0.0."""
    return [f"127.{network}.{number // 250}.{number % 250 + 1}" for number in range(count)]


@contextlib.contextmanager
def dead_hosts(hosts: Sequence[str], port: int) -> Iterator[None]:
    """A third refuses connections, a third takes them and never answers, and a third is not
    reached at all: its queue is full, so that the kernel lets what comes fall."""
    held: list[socket.socket] = []
    try:
        for number, address in enumerate(hosts):
            if number % 3 == 1:
                held.append(listen(address, port))  # the kernel accepts, nobody reads
            elif number % 3 == 2:
                held.append(listen(address, port, 0))
                for _ in range(2):
                    filler = socket.socket()
                    filler.setblocking(False)
                    with contextlib.suppress(BlockingIOError):
                        filler.connect((address, port))
                    held.append(filler)
        yield
    finally:
        for each in held:
            each.close()
