"""ActiveMQ, the report's broker, under the same load: requests in a queue for each peer, answers in
a queue for each worker, over STOMP. It plans, counts and reports nothing: a broker alone."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, cast

from benchmarks.communication.adapters import INPUTS
from benchmarks.communication.evaluation import CONTENT, UNDER_WAY
from benchmarks.servers import free_port, running, workplace

_LIBRARIES = Path("/usr/share/activemq/lib")
_MAIN = "org.apache.activemq.console.command.ShellCommand"


def is_installed() -> bool:
    """Debian's package `activemq`."""
    return _LIBRARIES.is_dir() and shutil.which("java") is not None


@contextlib.contextmanager
def broker() -> Iterator[int]:
    """With its own store (KahaDB), which syncs persistent messages to the same disk; the port."""
    port = free_port()
    home = Path("data")
    home.mkdir(exist_ok=True)
    with workplace(home) as directory:
        uri = f"broker:(stomp://127.0.0.1:{port})?useJmx=false&dataDirectory={directory}"
        classes = f"{_LIBRARIES}/*:{_LIBRARIES}/optional/*"
        java = ["java", "-Xmx1g", f"-Dactivemq.base={directory}", "-cp", classes, _MAIN]
        with running([*java, "start", uri], port, directory):
            yield port


Headers = dict[bytes, bytes]


class Stomp(asyncio.Protocol):
    """One connection; `heard(command, headers)` is told of every frame."""

    def __init__(self, heard: Callable[[Stomp, bytes, Headers], None]) -> None:
        self._heard = heard
        self._buffer = b""
        self._transport: asyncio.Transport
        self.connected = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.send(b"CONNECT", b"accept-version:1.2\nhost:localhost")

    def send(self, command: bytes, headers: bytes, body: bytes = b"") -> None:
        self._transport.write(b"%b\n%b\n\n%b\0" % (command, headers, body))

    def data_received(self, data: bytes) -> None:
        *frames, self._buffer = (self._buffer + data).split(b"\0")
        for frame in frames:
            lines = frame.lstrip(b"\n").partition(b"\n\n")[0].split(b"\n")
            headers = dict(line.split(b":", 1) for line in lines[1:])
            if lines[0] == b"CONNECTED":
                self.connected.set()
            else:
                self._heard(self, lines[0], headers)

    def close(self) -> None:
        self._transport.close()


class Load:
    """Workers and peers of one cell."""

    def __init__(self, workers: int, peers: int, transient: bool) -> None:
        self._persistent = b"false" if transient else b"true"
        self._peers = peers
        self._numbers = count()
        self._workers = workers
        self._idle: dict[Stomp, asyncio.Semaphore] = {}
        self.sent = self.replies = 0
        self.failure = ""

    async def open(self, port: int) -> list[Stomp]:
        connections = []
        for number in range(INPUTS):
            peer = await self._connect(port, self._asked)
            for of in range(number, self._peers, INPUTS):
                ids = b"id:%d\ndestination:/queue/peer.%d\nack:client-individual" % (of, of)
                peer.send(b"SUBSCRIBE", ids)
            connections.append(peer)
        for number in range(self._workers):
            worker = await self._connect(port, self._answered)
            worker.send(b"SUBSCRIBE", b"id:0\ndestination:/queue/worker.%d\nack:auto" % number)
            self._idle[worker] = asyncio.Semaphore(UNDER_WAY)
            connections.append(worker)
        return connections

    async def _connect(self, port: int, heard: Callable[[Stomp, bytes, Headers], None]) -> Stomp:
        loop = asyncio.get_running_loop()
        _, made = await loop.create_connection(lambda: Stomp(heard), "127.0.0.1", port)
        await made.connected.wait()
        return made

    def _asked(self, peer: Stomp, command: bytes, headers: Headers) -> None:
        if command != b"MESSAGE":
            self.failure = repr((command, headers))
            return
        to = b"destination:/queue/worker.%b\npersistent:%b" % (headers[b"from"], self._persistent)
        peer.send(b"SEND", to, CONTENT.encode())
        peer.send(b"ACK", b"id:%b" % headers[b"ack"])

    def _answered(self, worker: Stomp, command: bytes, headers: Headers) -> None:
        if command == b"RECEIPT":
            self._idle[worker].release()
        elif command == b"MESSAGE":
            self.replies += 1
        else:
            self.failure = repr((command, headers))

    async def run(self, seconds: float) -> None:
        until = time.perf_counter() + seconds
        work = [self._work(n, worker, until) for n, worker in enumerate(self._idle)]
        await asyncio.gather(*work)
        while self.replies < self.sent and not self.failure:
            await asyncio.sleep(0.005)
        if self.failure:
            raise RuntimeError(f"ActiveMQ: {self.failure}")

    async def _work(self, number: int, worker: Stomp, until: float) -> None:
        while time.perf_counter() < until:
            await self._idle[worker].acquire()
            to = next(self._numbers)
            headers = b"destination:/queue/peer.%d\nfrom:%d\npersistent:%b\nreceipt:%d" % (
                to % self._peers,
                number,
                self._persistent,
                to,
            )
            worker.send(b"SEND", headers, CONTENT.encode())
            self.sent += 1


async def evaluate(
    port: int, workers: int, peers: int, transient: bool, seconds: float, warm_seconds: float
) -> dict[str, Any]:
    """Requests and replies each second, as in `evaluation.evaluate`."""
    load = Load(workers, peers, transient)
    connections = await load.open(port)
    await load.run(warm_seconds)
    before, began = load.replies, time.perf_counter()
    await load.run(seconds)
    rate = 2 * (load.replies - before) / (time.perf_counter() - began)
    for connection in connections:
        connection.close()
    return {"rate": rate}
