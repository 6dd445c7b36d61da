"""A hub with much in it: how fast it is back after a crash, and what a long backlog costs."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import msgspec

from benchmarks.hub import HUB, configuration
from benchmarks.once.clients import PAYLOAD, TOPIC, HubbubClient
from benchmarks.once.measures import BATCH, round_trips
from benchmarks.servers import free_port, workplace
from hubbub.domain.messages import JSON, Message
from hubbub.domain.names import PARTITIONS, partition_of
from hubbub.ports.storage.messages import Append
from hubbub.storage.sqlite.store import SqliteStore

_CHUNK = 1000


async def _fill(path: Path, count: int) -> None:
    """Messages straight into the store, as the hub writes them."""
    store = SqliteStore(path / "hubbub.db")
    await store.open()
    term = (await store.acquire_partitions(range(PARTITIONS), "fill"))[partition_of(HUB, TOPIC)]
    producer = await store.open_producer(
        HUB, TOPIC, "anonymous", "fill", partition_of(HUB, TOPIC), term, False, 1
    )

    def append(serial: int) -> Append:
        message = Message(
            f"m{serial}", HUB, TOPIC, "m", PAYLOAD, JSON, 1_700_000_000_000 + serial, serial
        )
        message.store = True
        return Append(message, "fill", partition_of(HUB, TOPIC), term, None, producer.id, serial)

    under_way: set[asyncio.Future[object]] = set()
    for start in range(1, count + 1, _CHUNK):
        batch = [append(n) for n in range(start, min(start + _CHUNK, count + 1))]
        under_way.add(asyncio.ensure_future(store.append(batch)))
        if len(under_way) >= 4:
            _, under_way = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.gather(*under_way)
    await store.close()


class _Hub:
    """A hub's process that can be killed and started again on its data."""

    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        self._config = directory / "hubbub.yaml"
        self._config.write_text(json.dumps(configuration(self.port)))
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Seconds until it says that it is ready."""
        began = time.perf_counter()
        program = str(Path(sys.executable).with_name("hubbub"))
        self._process = subprocess.Popen(
            [program, "serve", "--config", str(self._config)],
            cwd=self._directory,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while time.perf_counter() - began < 120:
            with contextlib.suppress(OSError):
                url = f"http://127.0.0.1:{self.port}/readyz"
                with urllib.request.urlopen(url, timeout=1) as answer:
                    if answer.status == 200:
                        return time.perf_counter() - began
            time.sleep(0.01)
        raise RuntimeError("the hub did not come up")

    def kill(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(20)


@contextlib.contextmanager
def _filled(count: int) -> Iterator[_Hub]:
    home = Path("data")
    home.mkdir(exist_ok=True)
    with workplace(home) as directory:
        data = directory / "data"
        data.mkdir()
        asyncio.run(_fill(data, count))
        hub = _Hub(directory)
        try:
            yield hub
        finally:
            hub.stop()


def recovery_seconds(count: int) -> float:
    """From starting a hub that was killed in the middle of puts until it has taken one more."""
    with _filled(count) as hub:
        hub.start()
        asyncio.run(_put_some(hub.port, 200))
        hub.kill()
        began = time.perf_counter()
        hub.start()
        asyncio.run(_put_some(hub.port, 1, "later"))
        return time.perf_counter() - began


async def _put_some(port: int, count: int, name: str = "p") -> None:
    client = await HubbubClient(port, name).open()
    for _ in range(count):
        await client.put()
    await client.close()


class Backlog(msgspec.Struct, frozen=True):
    get: float
    ack: float
    """Median milliseconds of one."""


def backlog(messages: int, subscriptions: int, rounds: int) -> Backlog:
    """One message fetched and acknowledged where so many wait for so many subscriptions."""
    with _filled(messages) as hub:
        hub.start()
        return asyncio.run(_measure(hub.port, subscriptions, rounds))


async def _measure(port: int, subscriptions: int, rounds: int) -> Backlog:
    clients: list[HubbubClient] = []
    for number in range(subscriptions):
        client = await HubbubClient(port, f"s{number}").open() if number < BATCH else clients[0]
        if number < BATCH:
            clients.append(client)
        client._name = f"s{number}"
        await client.subscribe()
    client = clients[-1]

    async def look() -> None:
        client._last = 0
        await client.get(1, 0)

    async def acknowledge() -> None:
        client._request("TopicAck", {"name": client._name, "upTo": str(next(serials))})
        await client._until("TopicAcked")

    serials = itertools.count(1)
    await look()
    get = await round_trips(look, rounds)
    ack = await round_trips(acknowledge, rounds)
    for each in clients:
        await each.close()
    return Backlog(get, ack)
