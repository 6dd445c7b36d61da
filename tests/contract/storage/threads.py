"""The index of conversations."""

from __future__ import annotations

import random

import msgspec
import pytest

from contract.storage.records import (
    EPOCH,
    PARTITION,
    MakeStore,
    append,
    delete_before,
    message,
    own,
    serials,
)
from hubbub.domain.errors import StaleOwner
from hubbub.domain.messages import Attributes, Message
from hubbub.domain.threads import MAX_STATUS, Thread, ThreadsQuery
from hubbub.ports.storage import Store
from hubbub.ports.storage.messages import ChannelHead, StoredPage
from hubbub.ports.storage.threads import StoredThreads


def said(serial: int, conversation: str | None, **other: object) -> Message:
    attributes = None if conversation is None else Attributes(conversation_id=conversation)
    return message(serial, attributes=attributes, **other)  # type: ignore[arg-type]


def state(serial: int, conversation: str, payload: bytes, **other: object) -> Message:
    return said(serial, conversation, event="hConvState", payload=payload, **other)


async def store_all(store: Store, term: int, *messages: Message) -> None:
    answers = await store.append([append(each, term) for each in messages])
    assert answers == [None] * len(messages)


async def threads(store: Store, **query: object) -> StoredThreads:
    return await store.read_threads(ThreadsQuery("demo", "news", **query))  # type: ignore[arg-type]


async def names(store: Store, **query: object) -> list[str]:
    return [each.conversation_id for each in (await threads(store, **query)).threads]


async def conversation(store: Store, name: str, after: int = 0, limit: int = 10) -> StoredPage:
    return await store.read_conversation("demo", "news", name, after, limit)


class ThreadsContract:
    @pytest.mark.spec("CMD-07")
    async def test_threads_come_in_the_order_of_their_first_messages(self, store: Store) -> None:
        term = await own(store)
        first, other = said(1, "b"), said(3, "a")
        await store_all(store, term, first, said(2, None), other, said(4, "b"))
        found = await threads(store)
        assert found.threads == (Thread("b", first, 2, 4, 4000), Thread("a", other, 1, 3, 3000))
        assert found.head == ChannelHead(EPOCH, 4, 1)
        assert not found.more
        assert serials(await conversation(store, "b")) == [1, 4]

    async def test_a_channel_that_nobody_wrote_to_has_no_threads(self, store: Store) -> None:
        assert await threads(store) == StoredThreads((), False, None)
        assert await conversation(store, "b") == StoredPage((), False, None)
        assert await store.threads_indexed("demo", "news")

    async def test_a_later_append_continues_a_thread(self, store: Store) -> None:
        term = await own(store)
        await store_all(store, term, said(1, "a"))
        await store_all(store, term, said(2, "b"), said(3, "a"))
        found = (await threads(store)).threads
        assert [(each.messages, each.last_serial) for each in found] == [(2, 3), (1, 2)]

    async def test_pages_of_threads_and_of_a_thread_follow_each_other(self, store: Store) -> None:
        term = await own(store)
        await store_all(store, term, *(said(n, f"c{n % 4}") for n in range(1, 13)))
        page = await threads(store, limit=3)
        assert page.more
        assert [each.conversation_id for each in page.threads] == ["c1", "c2", "c3"]
        assert await names(store, limit=3, after=page.threads[-1].first.serial) == ["c0"]
        page_of_one = await conversation(store, "c2", limit=2)
        assert (serials(page_of_one), page_of_one.more) == ([2, 6], True)
        rest = await conversation(store, "c2", after=6, limit=2)
        assert (serials(rest), rest.more) == ([10], False)
        newest = await store.read_conversation_before("demo", "news", "c2", None, 2)
        assert (serials(newest), newest.more) == ([6, 10], True)
        older = await store.read_conversation_before("demo", "news", "c2", 6, 2)
        assert (serials(older), older.more) == ([2], False)

    @pytest.mark.spec("CMD-03")
    async def test_the_newest_state_of_a_conversation_is_its_status(self, store: Store) -> None:
        term = await own(store)
        await store_all(
            store,
            term,
            state(1, "a", b'{"status":"open"}'),
            state(2, "b", b'{"status":"open"}'),
            state(3, "a", b'{"status":"closed"}'),
            said(4, "a"),
        )
        assert await names(store, status="open") == ["b"]
        assert await names(store, status="closed") == ["a"]
        await store_all(store, term, said(5, "b", event="HCONVSTATE", payload=b'{"status":"new"}'))
        assert await names(store, status="open") == []
        assert await names(store, status="new") == ["b"]
        assert await names(store) == ["a", "b"]

    @pytest.mark.parametrize(
        "payload",
        [
            b"{}",
            b'{"status":1}',
            b"[]",
            b"1",
            b"",
            b'{"status":"' + b"x" * (MAX_STATUS + 1) + b'"}',
        ],
    )
    async def test_a_state_without_a_usable_status_ends_the_last_one(
        self, store: Store, payload: bytes
    ) -> None:
        term = await own(store)
        await store_all(store, term, state(1, "a", b'{"status":"open"}'), state(2, "a", payload))
        assert [each.status for each in (await threads(store)).threads] == [None]
        assert await names(store, status="open") == []

    @pytest.mark.spec("CMD-07")
    async def test_threads_follow_what_retention_deletes(self, store: Store) -> None:
        term = await own(store)
        await store_all(
            store,
            term,
            said(1, "gone"),
            state(2, "kept", b'{"status":"open"}'),
            said(3, "kept"),
            said(4, "later"),
        )
        await delete_before(store, 3, term)
        found = (await threads(store)).threads
        assert [(t.conversation_id, t.first.serial, t.messages, t.status) for t in found] == [
            ("kept", 3, 1, None),
            ("later", 4, 1, None),
        ]
        assert serials(await conversation(store, "kept")) == [3]
        assert serials(await conversation(store, "gone")) == []
        await delete_before(store, 5, term)
        assert await names(store) == []
        await store_all(store, term, said(5, "gone"))
        assert await names(store) == ["gone"]

    async def test_threads_of_hubs_and_channels_are_apart(self, store: Store) -> None:
        term = await own(store)
        attributes = Attributes(conversation_id="a")
        elsewhere = [
            message(1, channel="other", attributes=attributes),
            message(1, hub="rival", attributes=attributes),
        ]
        await store_all(store, term, said(1, "a"), *elsewhere)
        assert [each.messages for each in (await threads(store)).threads] == [1]
        assert await store.delete_hub("demo")
        assert await names(store) == []
        rival = await store.read_threads(ThreadsQuery("rival", "news"))
        assert len(rival.threads) == 1

    async def test_a_new_hub_of_an_old_name_has_no_threads(self, store: Store) -> None:
        term = await own(store)
        await store_all(store, term, said(1, "a"))
        await store.delete_hub("demo")
        await store_all(store, term, said(1, "b"))
        assert await names(store) == ["b"]
        assert serials(await conversation(store, "a")) == []

    async def test_a_refused_append_leaves_no_thread(self, store: Store) -> None:
        old = await own(store)
        term = await own(store)
        (refused,) = await store.append([append(said(1, "a"), old)])
        assert isinstance(refused, StaleOwner)
        assert await names(store) == []
        with pytest.raises(StaleOwner):
            await store.index_threads("demo", "news", PARTITION, old)
        await store.index_threads("demo", "news", PARTITION, term)

    async def test_a_page_of_large_first_messages_is_shorter(self, store: Store) -> None:
        term = await own(store)
        large = b"x" * 300_000
        await store_all(store, term, *(said(n, f"c{n}", payload=large) for n in range(1, 5)))
        seen: list[str] = []
        after, pages = 0, 0
        while True:
            page = await threads(store, after=after)
            pages += 1
            seen += [each.conversation_id for each in page.threads]
            if not page.more:
                break
            after = page.threads[-1].first.serial
        assert seen == ["c1", "c2", "c3", "c4"]
        assert pages > 1

    async def test_threads_survive_a_restart(self, make_store: MakeStore) -> None:
        store = make_store()
        await store.open()
        await store_all(store, await own(store), said(1, "é 🐝"))
        await store.close()
        store = make_store()
        await store.open()
        assert await names(store) == ["é 🐝"]
        await store.close()

    @pytest.mark.spec("CMD-07", "SEC-03")
    async def test_erased_messages_leave_their_conversations(self, store: Store) -> None:
        """And what they said of the status of one, also where it is not the oldest message."""
        term = await own(store)
        await store_all(
            store,
            term,
            said(1, "hers", publisher="ann"),
            state(2, "both", b'{"status":"open"}', publisher="bob"),
            state(3, "both", b'{"status":"shut"}', publisher="ann"),
            said(4, "both", publisher="ann"),
            said(5, "other", publisher="bob"),
        )
        await store.erase_messages("demo", "news", "ann", 0, 3, PARTITION, term)
        found = (await threads(store)).threads
        assert [(t.conversation_id, t.messages, t.last_serial, t.status) for t in found] == [
            ("both", 2, 4, "open"),
            ("other", 1, 5, None),
        ]
        await store.erase_messages("demo", "news", "ann", 3, 10, PARTITION, term)
        both, _ = (await threads(store)).threads
        assert (both.messages, both.last_serial, both.updated_at) == (1, 2, 2000)
        assert await names(store, status="shut") == []
        assert serials(await conversation(store, "hers")) == []
        assert serials(await conversation(store, "both")) == [2]
        await store.erase_messages("demo", "news", "bob", 0, 10, PARTITION, term)
        assert await names(store) == []

    @pytest.mark.spec("CMD-07")
    async def test_random_appends_deletions_and_erasures_leave_what_a_scan_would_find(
        self, store: Store
    ) -> None:
        chance = random.Random(7)
        term = await own(store)
        stored: list[Message] = []
        serial = 0
        for _ in range(25):
            batch: list[Message] = []
            for _ in range(chance.randrange(1, 12)):
                serial += 1
                name = chance.choice(["a", "b", "c", "d", None])
                who = chance.choice(["ann", "bob", None])
                if name is not None and chance.random() < 0.3:
                    status = chance.choice([b"open", b"shut"])
                    batch.append(state(serial, name, b'{"status":"%b"}' % status, publisher=who))
                else:
                    batch.append(said(serial, name, publisher=who))
            await store_all(store, term, *batch)
            stored += batch
            if chance.random() < 0.3:
                user, most = chance.choice(["ann", "bob"]), chance.randrange(1, 40)
                erased = await store.erase_messages("demo", "news", user, 0, most, PARTITION, term)
                stored = [
                    without(each)
                    if each.publisher == user and each.serial <= erased.after
                    else each
                    for each in stored
                ]
            if chance.random() < 0.5:
                end = chance.randrange(stored[0].serial, serial + 2)
                await delete_before(store, end, term)
                stored = [each for each in stored if each.serial >= end]
            expected = scan(stored)
            assert (await threads(store)).threads == tuple(expected)
            for status_name in ("open", "shut"):
                wanted = [t.conversation_id for t in expected if t.status == status_name]
                assert await names(store, status=status_name) == wanted


def without(erased: Message) -> Message:
    return msgspec.structs.replace(erased, publisher=None, attributes=None)


def scan(stored: list[Message]) -> list[Thread]:
    """The threads of these messages, by looking at every one."""
    found: dict[str, Thread] = {}
    for each in stored:
        if each.attributes is None or each.attributes.conversation_id is None:
            continue
        name = each.attributes.conversation_id
        known = found.get(name)
        first, count, status = (
            (known.first, known.messages, known.status) if known else (each, 0, None)
        )
        if each.event == "hConvState":
            status = each.payload.split(b'"')[3].decode()
        found[name] = Thread(name, first, count + 1, each.serial, each.published_at, status)
    return list(found.values())


WITHOUT_INDEX = (
    "DELETE FROM threads",
    "DELETE FROM thread_messages",
    "UPDATE channels SET threaded = 0",
)
"""Makes a database look as if an earlier version of Hubbub, without threads, had written it."""
DELETED_WITHOUT_INDEX = (
    "DELETE FROM messages WHERE serial < 3",
    "UPDATE channels SET first_serial = 3",
)
"""What such a version does when retention deletes messages."""


async def fill_with_threads(store: Store) -> int:
    term = await own(store)
    states = state(2, "b", b'{"status":"open"}'), state(4, "a", b'{"status":"shut"}')
    await store_all(store, term, said(1, "a"), states[0], said(3, None), states[1])
    return term


async def index_in_the_midst_of_appends(store: Store) -> None:
    """For a database `WITHOUT_INDEX` of four messages."""
    term = await own(store)
    assert not await store.threads_indexed("demo", "news")
    await store_all(store, term, said(5, "b"))
    assert await names(store) == []
    await store.index_threads("demo", "news", PARTITION, term)
    assert await store.threads_indexed("demo", "news")
    await store_all(store, term, said(6, "a"))
    found = (await threads(store)).threads
    assert [(t.conversation_id, t.messages, t.last_serial, t.status) for t in found] == [
        ("a", 3, 6, "shut"),
        ("b", 2, 5, "open"),
    ]
    await delete_before(store, 7, term)
    assert await names(store) == []


async def index_after_a_deletion(store: Store) -> None:
    """For a database of four messages with `DELETED_WITHOUT_INDEX`."""
    assert not await store.threads_indexed("demo", "news")
    await store.index_threads("demo", "news", PARTITION, await own(store))
    assert await store.threads_indexed("demo", "news")
    found = (await threads(store)).threads
    assert [(t.conversation_id, t.first.serial, t.messages, t.status) for t in found] == [
        ("a", 4, 1, "shut")
    ]
