"""What is measured: each in one run with its peer, one right after the other."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from statistics import median

from benchmarks.load.processes import cpu_seconds
from benchmarks.once.clients import Client, JetStreamClient
from benchmarks.once.servers import Subject

BATCH = 100


async def _prepare(subject: Subject) -> None:
    if subject.name == "jetstream":
        client = await JetStreamClient(subject.port, "setup").open()
        await client.create_stream()
        await client.close()


async def puts_per_second(
    subject: Subject, producers: int, seconds: float
) -> tuple[float, float, float]:
    """Producers that each wait for their confirmation: messages a second, the p99 in
    milliseconds, and the server's CPU seconds for each million."""
    await _prepare(subject)
    clients = [await subject.connect(f"p{n}") for n in range(producers)]
    counted: list[float] = []
    ends = [0.0]

    async def produce(client: Client) -> None:
        while time.perf_counter() < ends[0]:
            began = time.perf_counter()
            await client.put()
            counted.append(time.perf_counter() - began)

    ends[0] = time.perf_counter() + seconds / 3  # to warm up
    await asyncio.gather(*map(produce, clients))
    counted.clear()
    began, cpu = time.perf_counter(), cpu_seconds(subject.process.pid)
    ends[0] = began + seconds
    await asyncio.gather(*map(produce, clients))
    took = time.perf_counter() - began
    cpu = cpu_seconds(subject.process.pid) - cpu
    for client in clients:
        await client.close()
    counted.sort()
    p99 = counted[int(len(counted) * 0.99)] * 1e3
    return len(counted) / took, p99, cpu / len(counted) * 1e6


async def fill(subject: Subject, count: int, producers: int = 100) -> None:
    await _prepare(subject)
    clients = [await subject.connect(f"f{n}") for n in range(producers)]

    async def produce(client: Client) -> None:
        for _ in range(count // producers):
            await client.put()

    await asyncio.gather(*map(produce, clients))
    for client in clients:
        await client.close()


async def gets_per_second(subject: Subject, count: int) -> float:
    """One consumer that fetches and acknowledges in batches; messages a second."""
    await fill(subject, count)
    consumer = await subject.connect("consumer")
    await consumer.subscribe()
    await consumer.get(BATCH, 0)
    began, fetched = time.perf_counter(), 0
    while fetched < count - BATCH:
        found = await consumer.get(BATCH, 1)
        if not found:
            raise RuntimeError(f"only {fetched} of {count} came")
        fetched += found
    await consumer.settle()
    took = time.perf_counter() - began
    await consumer.close()
    return fetched / took


async def put_to_get_milliseconds(subject: Subject, rounds: int) -> float:
    """From before a put until a consumer that waits has the message; the median."""
    await _prepare(subject)
    producer, consumer = await subject.connect("p"), await subject.connect("consumer")
    await producer.put()
    await consumer.subscribe()
    await consumer.get(BATCH, 0)
    times = []
    for _ in range(rounds):
        waiting = asyncio.ensure_future(consumer.get(1, 5))
        await asyncio.sleep(0.005)
        began = time.perf_counter()
        put = asyncio.ensure_future(producer.put())
        await waiting
        times.append(time.perf_counter() - began)
        await put
    for client in (producer, consumer):
        await client.close()
    return median(times) * 1e3


async def round_trips(work: Callable[[], Awaitable[object]], rounds: int) -> float:
    """The median milliseconds of one."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        await work()
        times.append(time.perf_counter() - began)
    return median(times) * 1e3
