"""Records and short ways that the suites of the storage roles share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest

from hubbub.domain.audit import AuditEntry
from hubbub.domain.errors import STORE_AWAY, STORE_FULL, StoreUnavailable
from hubbub.domain.messages import Message
from hubbub.ports.storage import Store
from hubbub.ports.storage.messages import (
    Append,
    StoredPage,
)
from hubbub.ports.storage.topics import ProducerRecord, SavedCursor

MakeStore = Callable[[], Store]
AnyStore = TypeVar("AnyStore", bound=Store)

EPOCH = "epoch-1"
PARTITION = 7


def message(serial: int, channel: str = "news", hub: str = "demo", **other: object) -> Message:
    fields: dict[str, object] = {
        "id": f"{channel}-{serial}",
        "event": "posted",
        "payload": b"x" * 10,
        "content_type": "application/json",
        "published_at": serial * 1000,
        "store": True,
    }
    return Message(hub=hub, channel=channel, serial=serial, **(fields | other))  # type: ignore[arg-type]


def append(item: Message, term: int, retain_until: int | None = None) -> Append:
    return Append(item, EPOCH, PARTITION, term, retain_until)


async def open_producer(
    store: Store,
    term: int,
    channel: str = "news",
    take_over: bool = False,
    who: str = "u:ann",
    name: str = "p",
    at_most: int = 100,
) -> ProducerRecord:
    which = ("demo", channel, who, name)
    return await store.open_producer(*which, PARTITION, term, take_over, at_most)


def put(item: Message, term: int, producer: ProducerRecord, sequence: int) -> Append:
    return Append(item, EPOCH, PARTITION, term, producer=producer.id, sequence=sequence)


def cursor(
    name: str = "a", floor: int = 0, channel: str = "news", owner: str = "u:ann"
) -> SavedCursor:
    return SavedCursor("demo", channel, owner, name, floor, b"state of %d" % floor)


@asynccontextmanager
async def opened(store: AnyStore) -> AsyncIterator[AnyStore]:
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def why_it_cannot_open(store: Store) -> str:
    with pytest.raises(StoreUnavailable) as refused:
        await store.open()
    assert refused.value.message in (STORE_AWAY, STORE_FULL), "clients are told no address"
    return str(refused.value)


def serials(page: StoredPage) -> list[int]:
    return [item.serial for item in page.messages]


async def own(store: Store, owner: str = "node-1") -> int:
    """Take the tests' partition over; answers its term."""
    return (await store.acquire_partitions([PARTITION], owner))[PARTITION]


async def delete_before(store: Store, serial: int, term: int, hub: str = "demo") -> int:
    """Answers how many went."""
    return (await store.delete_before(hub, "news", serial, PARTITION, term)).messages


async def fill(store: Store, count: int, channel: str = "news", hub: str = "demo") -> int:
    term = await own(store)
    items = [append(message(n, channel, hub), term) for n in range(1, count + 1)]
    assert await store.append(items) == [None] * count
    return term


def audit(action: str, **other: object) -> AuditEntry:
    fields: dict[str, object] = {
        "at": 7,
        "hub": "h",
        "actor": "ann",
        "level": "admin",
        "name": "a",
        "before": b"1",
        "token_id": "t",
    }
    return AuditEntry(action=action, **(fields | other))  # type: ignore[arg-type]
