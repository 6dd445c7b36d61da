"""The time that a message takes from one node to another: directly, through one NATS server, and
through two servers of a NATS cluster, which is the path that AppSockets avoids.

    python -m benchmarks.hops [MESSAGES]
"""

from __future__ import annotations

import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.peers import nats_program
from benchmarks.servers import free_port

PAYLOAD = b"x" * 300
SECONDS = 10.0

Send = Callable[[], None]
Receive = Callable[[], None]


@contextmanager
def nats_cluster(folder: Path, servers: int) -> Iterator[list[int]]:
    """Servers that know each other; yields the ports of their clients."""
    ports = [free_port() for _ in range(servers)]
    routes = [free_port() for _ in range(servers)]
    addresses = ",".join(f"nats-route://127.0.0.1:{route}" for route in routes)
    with ExitStack() as stack:
        for number, (port, route) in enumerate(zip(ports, routes, strict=True)):
            command = [nats_program(), "-a", "127.0.0.1", "-p", str(port), "-n", f"n{number}"]
            if servers > 1:
                listen = f"nats://127.0.0.1:{route}"
                command += ["--cluster_name", "hops", "--cluster", listen, "--routes", addresses]
            log = stack.enter_context((folder / f"nats{number}.log").open("wb"))
            process = subprocess.Popen(command, stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield ports


def connect(port: int) -> socket.socket:
    until = time.monotonic() + SECONDS
    while True:
        try:
            found = socket.create_connection(("127.0.0.1", port), SECONDS)
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)
        else:
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return found


def reader(connection: socket.socket, size: int) -> Receive:
    """Receives a message of this size, and passes over what a NATS server asks."""

    def receive() -> None:
        found = b""
        while len(found) < size:
            found = (found + connection.recv(65536)).replace(b"PING\r\n", b"")

    return receive


@contextmanager
def direct() -> Iterator[tuple[Send, Receive]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = connect(listener.getsockname()[1])
        receiver, _ = listener.accept()
        with sender, receiver:
            yield lambda: sender.sendall(PAYLOAD), reader(receiver, len(PAYLOAD))


@contextmanager
def through_nats(sending: int, receiving: int) -> Iterator[tuple[Send, Receive]]:
    """From a client of one server to a client of one, perhaps another."""
    with connect(sending) as sender, connect(receiving) as receiver:
        for each in (sender, receiver):
            each.sendall(b"CONNECT %b\r\n" % json.dumps({"verbose": False}).encode())
        receiver.sendall(b"SUB hop 1\r\nPING\r\n")
        _read_until(receiver, b"PONG\r\n")
        sent = b"PUB hop %d\r\n%b\r\n" % (len(PAYLOAD), PAYLOAD)
        told = b"MSG hop 1 %d\r\n%b\r\n" % (len(PAYLOAD), PAYLOAD)
        receiver.settimeout(0.2)
        for _ in range(50):  # until the servers know of each other's subscriptions
            sender.sendall(sent)
            try:
                _read_until(receiver, told)
                break
            except TimeoutError:
                continue
        receiver.settimeout(SECONDS)
        yield lambda: sender.sendall(sent), reader(receiver, len(told))


def _read_until(connection: socket.socket, ending: bytes) -> None:
    found = b""
    while not found.endswith(ending):
        found += connection.recv(65536)


def measure(send: Send, receive: Receive, messages: int) -> list[float]:
    """Microseconds, one message after the other."""
    times = []
    for number in range(messages + messages // 10):
        began = time.perf_counter()
        send()
        receive()
        if number >= messages // 10:
            times.append((time.perf_counter() - began) * 1e6)
    return times


def main() -> None:
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with nats_cluster(folder, 1) as (alone,), nats_cluster(folder, 3) as (one, two, _):
            paths = {
                "node to node, 1 hop": direct(),
                "one NATS server, 2 hops": through_nats(alone, alone),
                "two servers of a NATS cluster, 3 hops": through_nats(one, two),
            }
            for path, opened in paths.items():
                with opened as (send, receive):
                    times = measure(send, receive, messages)
                p50, p99 = statistics.median(times), statistics.quantiles(times, n=100)[98]
                print(f"{path}: median {p50:.0f} µs, 99th percentile {p99:.0f} µs", flush=True)


if __name__ == "__main__":
    main()
