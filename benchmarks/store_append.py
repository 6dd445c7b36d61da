"""Durable appends per second: on the embedded store, alone and beside a busy event loop; or on a
PostgreSQL server on this machine, which syncs to disk too.

    python -m benchmarks.store_append [--seconds 3] [--publishers 100] [--batch 1]
    python -m benchmarks.store_append --postgres [--publishers 100 --publishers 1000]

`fan-out` keeps the loop busy with `os.write` in slices of 500, as delivering to many does;
`python` with slices of plain Python, which never let go of the interpreter lock by themselves.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import uvloop

from benchmarks.postgres import PASSWORD, USER, LocalPostgres, local_postgres
from benchmarks.servers import workplace
from hubbub.domain.messages import JSON, Message
from hubbub.domain.names import partition_of
from hubbub.ports.storage import Store
from hubbub.ports.storage.messages import Append
from hubbub.storage.postgres.connection import PostgresOptions
from hubbub.storage.postgres.store import PostgresStore
from hubbub.storage.sqlite.store import SqliteStore

SLICE = 500
PAYLOAD = b'"' + b"x" * 198 + b'"'


class Load:
    """Publishers that each await their ack before the next append, on channels of their own."""

    def __init__(self, store: Store, batch: int) -> None:
        self.store = store
        self.batch = batch
        self.stored = 0
        self.waits: list[float] = []
        self.running = True

    async def publish(self, number: int, terms: dict[int, int]) -> None:
        hub, channel = f"hub{number % 4}", f"channel{number}"
        partition = partition_of(hub, channel)
        serial = 0
        while self.running:
            appends = []
            for _ in range(self.batch):
                serial += 1
                message = Message(
                    id=f"{number}-{serial}",
                    hub=hub,
                    channel=channel,
                    event="tick",
                    payload=PAYLOAD,
                    content_type=JSON,
                    published_at=1_700_000_000_000 + serial,
                    serial=serial,
                    store=True,
                )
                appends.append(Append(message, "epoch", partition, terms[partition]))
            started = time.perf_counter()
            results = await self.store.append(appends)
            self.waits.append(time.perf_counter() - started)
            assert not any(results), results
            self.stored += self.batch


async def keep_busy(load: Load, work: Callable[[], object]) -> int:
    done = 0
    while load.running:
        for _ in range(SLICE):
            work()
        done += SLICE
        await asyncio.sleep(0)
    return done


def discarding_write() -> Callable[[], object]:
    """A datagram to a socket that nobody reads: the cost of a send, without a reader."""
    target = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    target.bind(("127.0.0.1", 0))
    source = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    source.connect(target.getsockname())
    data = b"y" * 256
    return lambda: (os.write(source.fileno(), data), target)


async def measure(store: Store, beside: str, publishers: int, options: argparse.Namespace) -> None:
    await store.open()
    terms = await store.acquire_partitions(range(1024), "bench")
    load = Load(store, options.batch)
    tasks = [asyncio.create_task(load.publish(n, terms)) for n in range(publishers)]
    busy = None
    if beside == "fan-out":
        busy = asyncio.create_task(keep_busy(load, discarding_write()))
    elif beside == "python":
        busy = asyncio.create_task(keep_busy(load, lambda: sum(range(150))))
    started, cpu = time.perf_counter(), time.process_time()
    await asyncio.sleep(options.seconds)
    elapsed, cpu = time.perf_counter() - started, time.process_time() - cpu
    stored, waits = load.stored, sorted(load.waits)
    load.running = False
    await asyncio.gather(*tasks)
    other = f"{await busy / elapsed:9,.0f} busy calls/s" if busy else ""
    print(
        f"{publishers:5} publishers beside {beside:8} {stored / elapsed:9,.0f} messages/s"
        f"  ack p50 {waits[len(waits) // 2] * 1000:5.1f} ms"
        f"  p99 {waits[len(waits) * 99 // 100] * 1000:5.1f} ms"
        f"  hub CPU {cpu / max(1, stored) * 1e6:5.1f} µs/message  {other}",
        flush=True,
    )
    await store.close()


def measure_embedded(beside: str, publishers: int, options: argparse.Namespace) -> None:
    with workplace(options.folder) as folder:
        uvloop.run(measure(SqliteStore(folder / "hubbub.db"), beside, publishers, options))


def measure_postgres(beside: str, publishers: int, options: argparse.Namespace) -> None:
    with local_postgres(options.folder) as server:
        store = PostgresStore(_options(server))
        uvloop.run(measure(store, beside, publishers, options))


def _options(server: LocalPostgres) -> PostgresOptions:
    return PostgresOptions(
        hosts=("127.0.0.1",),
        port=server.port,
        user=USER,
        password=PASSWORD,
        database="postgres",
        ssl_mode="disable",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--publishers", type=int, action="append", help="(repeatable)")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--postgres", action="store_true", help="in place of the embedded store")
    parser.add_argument(
        "--folder", type=Path, help="where to put the database (default: the temp folder)"
    )
    options = parser.parse_args()
    measure_one = measure_postgres if options.postgres else measure_embedded
    for publishers in options.publishers or ([100, 1000] if options.postgres else [100]):
        for beside in ("nothing", "fan-out", "python"):
            measure_one(beside, publishers, options)


if __name__ == "__main__":
    main()
