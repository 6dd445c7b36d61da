"""The writer: bounded memory, segments that end in time, and an outbox that forgets nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from harness.clock import FakeClock
from harness.engine import FaultyStore
from harness.journal import journal_events, stored_serials
from hubbub.domain.journal import (
    PUBLISHED,
    SESSION_OPENED,
    TELEMETRY_LOST,
    JournalEvent,
    PayloadRule,
)
from hubbub.domain.messages import JSON, Message
from hubbub.journal.folder import JournalFolder
from hubbub.journal.segments import SegmentOptions
from hubbub.journal.writer import BATCH_EVENTS, JournalWriter
from hubbub.ports.storage.messages import Append

pytestmark = pytest.mark.spec("PIPE-01")

EPOCH = "epoch-1"


def message(serial: int, channel: str = "news", **more: Any) -> Message:
    return Message(
        f"{channel}-{serial}", "acme", channel, "e", b"{}", JSON, serial * 1000, serial, **more
    )


def event(**more: Any) -> JournalEvent:
    return JournalEvent(SESSION_OPENED, 1, "acme", **more)


class Desk:
    """A writer with a real store and a folder of its own."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.path = path / "journal"
        self.store = FaultyStore(path / "hubbub.db")
        self.clock = FakeClock()
        self.rule: PayloadRule = "metadata"
        self.options = {"max_buffered_bytes": 1 << 20, **options}
        self.term = 0

    def writer(self) -> JournalWriter:
        limits = dict(self.options)
        most = limits.pop("max_buffered_bytes")
        return JournalWriter(
            JournalFolder(self.path),
            "local",
            self.clock,
            self.store,
            lambda hub, channel: self.rule,
            SegmentOptions(**limits),
            most,
        )

    async def append(self, *messages: Message) -> None:
        terms = await self.store.acquire_partitions([1], "local")
        for each in messages:
            each.store = True
        done = await self.store.append([Append(each, EPOCH, 1, terms[1]) for each in messages])
        assert done == [None] * len(messages)


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    desk = Desk(tmp_path)
    await desk.store.open()
    yield desk
    await desk.store.close()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.01)


async def test_memory_is_bounded_while_the_disk_takes_nothing(tmp_path: Path) -> None:
    desk = Desk(tmp_path, max_buffered_bytes=100_000)
    writer = desk.writer()  # whose thread never starts: a disk that hangs
    most = 0
    for number in range(20_000):
        writer.record(event(session=f"session-{number}"))
        most = max(most, writer.buffered_bytes + 100 * writer._gathered.count)
    writer.flush()
    assert most < 100_000 + 200 * BATCH_EVENTS
    assert 0 < writer.lost < 20_000


async def test_what_was_lost_is_told_as_soon_as_there_is_room(desk: Desk) -> None:
    desk.options["max_buffered_bytes"] = 10_000
    writer = desk.writer()
    for number in range(5_000):
        writer.record(event(session=f"session-{number}"))
    lost = writer.lost
    assert lost
    writer.start()
    await until(lambda: not writer.buffered_bytes)
    writer.record(event(session="late"))
    await writer.stop()
    kept = journal_events(desk.path)
    (told,) = [each for each in kept if each.kind == TELEMETRY_LOST]
    assert (told.hub, told.node, told.reason) == ("acme", "local", "overload")
    assert told.count == lost
    assert len([each for each in kept if each.kind == SESSION_OPENED]) == 5_001 - lost


async def test_a_segment_is_closed_by_its_size(desk: Desk) -> None:
    desk.options |= {"segment_bytes": 64 * 1024, "max_buffered_bytes": 1 << 24}
    writer = desk.writer()
    writer.start()
    for number in range(20_000):
        writer.record(event(session=f"session-{number}", reason="x" * 50))
    await writer.stop()
    segments = JournalFolder(desk.path).closed_segments()
    assert len(segments) > 3
    assert len(journal_events(desk.path, SESSION_OPENED)) == 20_000


async def test_a_segment_is_closed_by_its_age_and_an_empty_one_is_never_made(desk: Desk) -> None:
    desk.options["segment_seconds"] = 300.0
    folder = JournalFolder(desk.path)
    writer = desk.writer()
    writer.start()
    writer.record(event())
    await until(lambda: writer.thread.open_segments)
    desk.clock.advance(301)
    await until(lambda: folder.closed_segments())
    await until(lambda: not writer.thread.open_segments)
    await writer.stop()
    assert len(folder.closed_segments()) == 1
    assert list(folder.open.iterdir()) == []


async def test_no_two_segments_have_the_same_name(desk: Desk) -> None:
    for _ in range(3):
        writer = desk.writer()
        writer.start()
        writer.record(event())
        await writer.stop()
    names = [path.stem for path in JournalFolder(desk.path).closed_segments()]
    assert len(set(names)) == 3
    assert all(name.startswith("local-") for name in names)


async def test_stored_messages_are_written_once_and_the_store_knows(desk: Desk) -> None:
    writer = desk.writer()
    writer.start()
    messages = [message(serial) for serial in range(1, 6)]
    await desk.append(*messages)
    for each in messages:
        writer.published(each, EPOCH, "metadata")
    await writer.stop()
    assert [each.serial for each in journal_events(desk.path, PUBLISHED)] == [1, 2, 3, 4, 5]
    assert await desk.store.read_exported("acme", "news") == 5


async def test_messages_that_nobody_told_of_are_read_from_the_store(desk: Desk) -> None:
    """As after a crash between the store's commit and the journal's."""
    await desk.append(*(message(serial) for serial in range(1, 1201)))
    await desk.append(*(message(serial, "other") for serial in range(1, 4)))
    writer = desk.writer()
    writer.start()
    await until(lambda: journal_events(desk.path) and not writer.exporter.behind)
    await writer.stop()
    found = stored_serials(desk.path)
    assert sorted(found["news"]) == [*range(1, 1201)]
    assert sorted(found["other"]) == [1, 2, 3]
    assert await desk.store.read_unexported(None, 10) == []


async def test_messages_that_come_while_the_past_is_read_are_neither_lost_nor_out_of_order(
    desk: Desk,
) -> None:
    await desk.append(*(message(serial) for serial in range(1, 1001)))
    writer = desk.writer()
    writer.start()
    for serial in range(1001, 1501):
        new = message(serial)
        await desk.append(new)
        writer.published(new, EPOCH, "metadata")
    await until(lambda: not writer.exporter.behind)
    await writer.stop()
    serials = {each.serial for each in journal_events(desk.path, PUBLISHED)}
    assert serials == set(range(1, 1501))
    assert await desk.store.read_exported("acme", "news") == 1500


async def test_a_stored_message_that_found_no_room_comes_from_the_store(desk: Desk) -> None:
    desk.options["max_buffered_bytes"] = 10_000
    writer = desk.writer()
    for number in range(5_000):
        writer.record(event(session=f"session-{number}"))
    stored = [message(serial) for serial in range(1, 11)]
    await desk.append(*stored)
    for each in stored:
        writer.published(each, EPOCH, "metadata")
    writer.flush()
    assert writer.exporter.behind == 1
    assert journal_events(desk.path) == []
    writer.start()
    await until(lambda: stored_serials(desk.path) and not writer.exporter.behind)
    await writer.stop()
    assert sorted(stored_serials(desk.path)["news"]) == [*range(1, 11)]
    assert await desk.store.read_exported("acme", "news") == 10


async def test_a_channel_that_is_not_journalled_is_not_waited_for(desk: Desk) -> None:
    """Retention asks how far the journal is; where nothing is kept, it must not stop."""
    desk.rule = "off"
    await desk.append(message(1), message(2))
    writer = desk.writer()
    writer.start()
    await until(lambda: writer.exporter._scanned and not writer.exporter.behind)
    third = message(3)
    await desk.append(third)
    writer.published(third, EPOCH, "off")
    await writer.stop()
    assert journal_events(desk.path) == []
    assert await desk.store.read_exported("acme", "news") == 3


async def test_a_channel_that_began_anew_is_exported_from_its_beginning(desk: Desk) -> None:
    writer = desk.writer()
    writer.start()
    first = message(1)
    await desk.append(first)
    writer.published(first, EPOCH, "metadata")
    await desk.store.delete_hub("acme")
    again = Message("again-1", "acme", "news", "e", b"{}", JSON, 5, 1, store=True)
    terms = await desk.store.acquire_partitions([1], "local")
    await desk.store.append([Append(again, "epoch-2", 1, terms[1])])
    writer.published(again, "epoch-2", "metadata")
    await writer.stop()
    ids = [each.message_id for each in journal_events(desk.path, PUBLISHED)]
    assert ids == ["news-1", "again-1"]
    assert await desk.store.read_exported("acme", "news") == 1
