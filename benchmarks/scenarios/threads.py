"""Conversations of a full channel: a page of threads, a page in a status, the messages of one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import islice
from statistics import median

from benchmarks.findings import Effort, Finding, spread
from benchmarks.servers import workplace
from hubbub.domain.messages import JSON, Attributes, Message
from hubbub.domain.names import partition_of
from hubbub.domain.threads import ThreadsQuery
from hubbub.ports.storage import Store
from hubbub.ports.storage.messages import Append
from hubbub.storage.sqlite.store import SqliteStore

_MESSAGES = 1_000_000
_PER_THREAD = 10
_PAGE = 100
_BATCH = 1_000
_REACH_MS = 50.0
_TRIES = 30
_HUB, _CHANNEL = "bench", "desk"
_STATE_EVERY = 20
_STATUSES = (b'{"status":"open"}', b'{"status":"closed"}')


def threads(effort: Effort) -> list[Finding]:
    """On the embedded store. Threads are interleaved: their messages lie far apart."""
    with workplace() as folder:
        return asyncio.run(_measure(SqliteStore(folder / "hubbub.db"), effort.scaled(_MESSAGES)))


async def _measure(store: Store, count: int) -> list[Finding]:
    await store.open()
    try:
        await _fill(store, count)
        half = ThreadsQuery(_HUB, _CHANNEL, _PAGE, after=count // _PER_THREAD // 2)
        name = f"case-{count // _PER_THREAD // 3}"
        of = f"of {count // _PER_THREAD:,} threads with {count:,} messages"

        async def page() -> int:
            return len((await store.read_threads(half)).threads)

        async def in_status() -> int:
            query = ThreadsQuery(_HUB, _CHANNEL, _PAGE, status="open")
            return len((await store.read_threads(query)).threads)

        async def one() -> int:
            return len((await store.read_conversation(_HUB, _CHANNEL, name, 0, _PAGE)).messages)

        return [
            _finding(f"a page of {_PAGE} {of}", await _timed(page, _PAGE)),
            _finding(f"a page of {_PAGE} in a status {of}", await _timed(in_status, _PAGE)),
            _finding(f"the messages of one {of}", await _timed(one, _PER_THREAD)),
        ]
    finally:
        await store.close()


def _finding(what: str, seconds: list[float]) -> Finding:
    times = [1000 * each for each in seconds]
    reached = median(times) < _REACH_MS
    return Finding(what, f"under {_REACH_MS:g} ms", spread(times, " ms", 1), reached, {"ms": times})


async def _timed(ask: Callable[[], Awaitable[int]], expected: int) -> list[float]:
    found = []
    for _ in range(_TRIES):
        started = time.perf_counter()
        count = await ask()
        found.append(time.perf_counter() - started)
        assert count == expected, count
    return found


async def _fill(store: Store, count: int) -> None:
    partition = partition_of(_HUB, _CHANNEL)
    term = (await store.acquire_partitions([partition], "bench"))[partition]
    messages = _messages(count)
    for _ in range(0, count, _BATCH):
        batch = [Append(each, "epoch", partition, term) for each in islice(messages, _BATCH)]
        assert not any(await store.append(batch))


def _messages(count: int) -> Iterator[Message]:
    """Every twentieth thread ends with a state."""
    conversations = count // _PER_THREAD
    for serial in range(1, count + 1):
        number = serial % conversations
        state = serial > count - conversations and number % _STATE_EVERY == 0
        yield Message(
            f"m{serial}",
            _HUB,
            _CHANNEL,
            "hConvState" if state else "said",
            _STATUSES[number // _STATE_EVERY % 2] if state else b'"' + b"x" * 98 + b'"',
            JSON,
            1_700_000_000_000 + serial,
            serial,
            store=True,
            attributes=Attributes(conversation_id=f"case-{number}"),
        )
