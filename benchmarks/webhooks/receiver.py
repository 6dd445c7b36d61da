"""Receivers of webhooks that cost little: raw connections on many loopback addresses, in a process
of their own.

When requests arrive is written to memory that both processes see; when as many have come as were
asked for, a byte on the pipe says so. A GET answers the challenge of WebSub, or else a feed that is
new each time.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, cast

import uvloop

from benchmarks.load.processes import cpu_seconds

_SPAWN = multiprocessing.get_context("spawn")
_GOAL, _TOTAL, _FIRST = 0, 1, 2
_PATIENCE_SECONDS = 60.0
_CHALLENGE = b"hub.challenge="
_TAKEN = b"HTTP/1.1 204 No Content\r\n\r\n"
_ENTRY = b"<p>" + 8 * b"The 2014 FIFA World Cup will take place in Brazil from 12 June to 13 July. "


class TooSlow(Exception):
    """What was asked for did not arrive."""


class _Request(asyncio.Protocol):
    """One connection of the hub."""

    def __init__(self, slots: Any, number: int, counts: bool, done: Connection) -> None:
        self._slots = slots
        self._number = number
        self._counts = counts
        self._done = done
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        self._buffer += data
        while True:
            end = self._buffer.find(b"\r\n\r\n") + 4
            if end < 4:
                return
            if self._buffer.startswith(b"GET"):
                line, self._buffer = self._buffer.partition(b"\r\n")[0], self._buffer[end:]
                self._transport.write(_page(line))
                continue
            end += _length(self._buffer[:end])
            if len(self._buffer) < end:
                return
            self._buffer = self._buffer[end:]
            self._arrived()
            self._transport.write(_TAKEN)

    def _arrived(self) -> None:
        slots = self._slots
        slots[_FIRST + self._number] = time.monotonic_ns()
        if self._counts:
            slots[_TOTAL] += 1
            if slots[_TOTAL] == slots[_GOAL]:
                self._done.send_bytes(b".")


def _length(head: bytes) -> int:
    return int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)


def _page(line: bytes) -> bytes:
    target = line.split(b" ")[1]
    if _CHALLENGE in target:
        body = target.partition(_CHALLENGE)[2].partition(b"&")[0]
    else:
        body = b'<feed xmlns="http://www.w3.org/2005/Atom"><id>%d</id>%b</feed>' % (
            time.monotonic_ns(),
            _ENTRY,
        )
    return (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/atom+xml\r\nContent-Length: %d\r\n\r\n"
        % (len(body))
        + body
    )


async def _serve(
    addresses: Sequence[str], port: int, counted: int, slots: Any, done: Connection
) -> None:
    loop = asyncio.get_running_loop()
    for number, address in enumerate(addresses):

        def connected(number: int = number) -> _Request:
            return _Request(slots, number, number < counted, done)

        await loop.create_server(connected, sock=listen(address, port))
    done.send_bytes(b"ready")
    await asyncio.Event().wait()


def _run(addresses: Sequence[str], port: int, counted: int, slots: Any, done: Connection) -> None:
    uvloop.run(_serve(addresses, port, counted, slots, done))


@dataclass(frozen=True, slots=True)
class Receivers:
    """The first `counted` of the addresses are waited for."""

    addresses: Sequence[str]
    port: int
    counted: int
    pid: int
    _slots: Any
    _done: Connection

    def expect(self, requests: int) -> None:
        """From now on `wait` waits for so many."""
        while self._done.poll():
            self._done.recv_bytes()
        self._slots[_TOTAL] = 0
        self._slots[_GOAL] = requests

    def wait(self, seconds: float = _PATIENCE_SECONDS) -> None:
        """Raises `TooSlow`."""
        if not self._done.poll(seconds):
            came, goal = self._slots[_TOTAL], self._slots[_GOAL]
            raise TooSlow(f"{came} of {goal} requests arrived within {seconds:.0f} s")
        self._done.recv_bytes()

    @property
    def total(self) -> int:
        return int(self._slots[_TOTAL])

    def arrivals(self) -> list[int]:
        """When the last request came to each of those that count, in monotonic nanoseconds."""
        return list(self._slots[_FIRST : _FIRST + self.counted])

    def cpu_seconds(self) -> float:
        return cpu_seconds(self.pid)


@contextlib.contextmanager
def receivers(
    addresses: Sequence[str], port: int, counted: int | None = None
) -> Iterator[Receivers]:
    slots = _SPAWN.RawArray("q", _FIRST + len(addresses))
    mine, theirs = _SPAWN.Pipe(duplex=False)
    counted = len(addresses) if counted is None else counted
    arguments = (addresses, port, counted, slots, theirs)
    process = _SPAWN.Process(target=_run, args=arguments, daemon=True)
    process.start()
    try:
        if not mine.poll(_PATIENCE_SECONDS) or mine.recv_bytes() != b"ready":
            raise TooSlow("the receivers do not listen")
        assert process.pid is not None
        yield Receivers(addresses, port, counted, process.pid, slots, mine)
    finally:
        process.kill()
        process.join()


def listen(address: str, port: int, backlog: int = 128) -> socket.socket:
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind((address, port))
    listening.listen(backlog)
    return listening
