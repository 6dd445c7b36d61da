"""The receivers that webhooks are measured with do what the measurement assumes."""

from __future__ import annotations

import socket
import time

import pytest

from benchmarks.servers import free_port
from benchmarks.webhooks.hosts import addresses, dead_hosts
from benchmarks.webhooks.receiver import TooSlow, receivers

POST = b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"


def exchange(address: str, port: int, *pieces: bytes) -> bytes:
    with socket.create_connection((address, port), 5) as connection:
        for piece in pieces:
            connection.sendall(piece)
        return connection.recv(65536)


def test_arrivals_are_counted_and_timed() -> None:
    with receivers(addresses(3), free_port(), counted=2) as found:
        first, second, other = found.addresses
        found.expect(2)
        began = time.monotonic_ns()
        for address in (first, other, second):
            assert exchange(address, found.port, POST[:20], POST[20:]).startswith(b"HTTP/1.1 204")
        found.wait(5)
        assert found.total == 2
        assert all(began < arrived < time.monotonic_ns() for arrived in found.arrivals())
        found.expect(1)
        with pytest.raises(TooSlow, match="0 of 1"):
            found.wait(0.01)


def test_a_challenge_is_answered_and_a_feed_is_new_each_time() -> None:
    with receivers(addresses(1), free_port()) as found:
        place = found.addresses[0], found.port
        challenged = exchange(*place, b"GET /?hub.challenge=abc&x=1 HTTP/1.1\r\n\r\n")
        assert challenged.endswith(b"\r\n\r\nabc")
        feeds = {exchange(*place, b"GET /feed HTTP/1.1\r\n\r\n") for _ in range(2)}
        assert len(feeds) == 2


def test_dead_hosts_refuse_stay_silent_or_are_not_reached() -> None:
    port = free_port()
    refusing, silent, unreachable = addresses(3, network=77)
    with dead_hosts([refusing, silent, unreachable], port):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((refusing, port), 1)
        with socket.create_connection((silent, port), 1) as connection:
            connection.sendall(POST)
            connection.settimeout(0.05)
            with pytest.raises(TimeoutError):
                connection.recv(1)
        with pytest.raises(TimeoutError):
            socket.create_connection((unreachable, port), 0.05)
