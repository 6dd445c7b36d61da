"""Opening many client connections and getting each of them ready."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator

from benchmarks.load.stamp import INDEX
from benchmarks.load.wire import Route, Step, frame

_AT_ONCE = 64
_SOURCES = 8
_PATIENCE_SECONDS = 30.0
_IP_BIND_ADDRESS_NO_PORT = 24


class NotReady(Exception):
    """A server did not answer a step of getting ready as it should."""


def open_connections(
    route: Route, count: int, first: int = 0, receive_buffer: int = 0
) -> Iterator[socket.socket]:
    """Non-blocking sockets that are ready; numbered from `first`, a few at a time."""
    raise_file_limit()
    for start in range(first, first + count, _AT_ONCE):
        numbers = range(start, min(start + _AT_ONCE, first + count))
        batch = [_connect(route.port_of(number), number, receive_buffer) for number in numbers]
        for step in route.steps:
            for number, connection in zip(numbers, batch, strict=True):
                text = step.text(number).replace(INDEX, b"%d" % number)
                connection.sendall(frame(step.framing, text))
            for connection in batch:
                _await(connection, step)
        for connection in batch:
            connection.setblocking(False)
            yield connection


def raise_file_limit() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _connect(port: int, number: int, receive_buffer: int) -> socket.socket:
    """Several source addresses, so that ports still in TIME_WAIT do not run out."""
    connection = socket.socket()
    connection.settimeout(_PATIENCE_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.IPPROTO_IP, _IP_BIND_ADDRESS_NO_PORT, 1)
    if receive_buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.bind((f"127.0.0.{1 + number % _SOURCES}", 0))
    connection.connect(("127.0.0.1", port))
    return connection


def _await(connection: socket.socket, step: Step) -> None:
    seen = b""
    while step.expect not in seen:
        try:
            piece = connection.recv(65536)
        except TimeoutError:
            piece = b""
        if not piece:
            raise NotReady(
                f"expected {step.expect!r} after {step.send[:120]!r}, got {seen[:400]!r}"
            )
        seen += piece
