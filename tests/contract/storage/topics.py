"""Producers and durable subscriptions.."""

from __future__ import annotations

import pytest

from contract.storage.records import (
    EPOCH,
    PARTITION,
    MakeStore,
    append,
    cursor,
    delete_before,
    fill,
    message,
    open_producer,
    opened,
    own,
    put,
)
from hubbub.domain.errors import Conflict, QuotaExceeded
from hubbub.ports.storage import Store
from hubbub.ports.storage.messages import (
    ChannelHead,
)
from hubbub.ports.storage.topics import ProducerRecord, SavedCursor


class TopicsContract:
    @pytest.mark.spec("ONCE-02")
    async def test_the_last_sequence_of_a_producer_is_stored_with_its_message(
        self, make_store: MakeStore
    ) -> None:
        async with opened(make_store()) as store:
            term = await own(store)
            first = await open_producer(store, term)
            other = await open_producer(store, term, who="u:bob")
            assert (first.fence, first.sequence) == (0, 0)
            assert first.id != other.id
            items = [put(message(1), term, first, 1), put(message(2), term, other, 1)]
            assert await store.append([*items, put(message(3), term, first, 2)]) == [None] * 3
        async with opened(make_store()) as store:
            term = await own(store)
            key = ("demo", "news", "u:ann", "p")
            assert await store.read_producer(*key) == ProducerRecord(first.id, 0, 2)
            assert await store.read_producer(*key[:3], "q") is None
            assert await open_producer(store, term) == ProducerRecord(first.id, 0, 2)
            found = await store.read_put(first.id, 2, "demo", "news")
            assert found is not None
            assert (found.serial, found.id) == (3, "news-3")
            assert await store.read_put(first.id, 3, "demo", "news") is None

    @pytest.mark.spec("ONCE-02")
    async def test_a_refused_put_uses_up_no_sequence(self, store: Store) -> None:
        term = await own(store)
        producer = await open_producer(store, term)
        (refused,) = await store.append([put(message(5), term, producer, 1)])
        assert isinstance(refused, Conflict)
        assert (await open_producer(store, term)).sequence == 0

    @pytest.mark.spec("ONCE-02")
    async def test_the_last_sequence_outlives_its_message(self, store: Store) -> None:
        term = await own(store)
        producer = await open_producer(store, term)
        await store.append([put(message(n), term, producer, n) for n in range(1, 6)])
        await store.append([append(message(6), term)])
        await delete_before(store, 4, term)
        assert await open_producer(store, term) == ProducerRecord(producer.id, 0, 5)
        await delete_before(store, 7, term)
        assert await open_producer(store, term) == ProducerRecord(producer.id, 0, 5)
        assert await store.read_put(producer.id, 5, "demo", "news") is None

    @pytest.mark.spec("ONCE-02")
    @pytest.mark.spec("SEC-01")
    async def test_a_user_has_a_bounded_number_of_producers_of_a_channel(
        self, store: Store
    ) -> None:
        term = await own(store)
        for name in ("one", "two"):
            await open_producer(store, term, name=name, at_most=2)
        with pytest.raises(QuotaExceeded):
            await open_producer(store, term, name="three", at_most=2)
        await open_producer(store, term, name="two", take_over=True, at_most=2)
        await open_producer(store, term, name="three", who="u:bob", at_most=2)
        await open_producer(store, term, name="three", channel="other", at_most=2)

    async def test_taking_a_producer_over_raises_its_fence(self, store: Store) -> None:
        term = await own(store)
        assert (await open_producer(store, term, take_over=True)).fence == 1
        assert (await open_producer(store, term, take_over=True)).fence == 2
        assert (await open_producer(store, term)).fence == 2
        assert (await open_producer(store, term, channel="other")).fence == 0

    @pytest.mark.spec("ADMIN-01")
    async def test_cursors_come_in_pages(self, store: Store) -> None:
        term = await own(store)
        every = [cursor("a"), cursor("b"), cursor("a", owner="u:bob"), cursor("a", 1, "zoo")]
        for each in every:
            await store.save_cursor(each, PARTITION, term)
        assert await store.read_cursors("demo", limit=3) == every[:3]
        behind = ("news", "u:ann", "b")
        assert await store.read_cursors("demo", after=behind, limit=9) == every[2:]
        assert await store.read_cursors("demo", "news", after=behind) == every[2:3]
        assert await store.read_cursors("demo", None, "u:ann", behind, 1) == every[3:]
        assert await store.read_cursors("demo", text="oo") == every[3:]
        assert await store.read_cursors("demo", text=":bob", limit=1) == every[2:3]
        assert await store.count_cursors("demo") == 4
        assert await store.count_cursors("demo", "news", text="b") == 2
        assert await store.count_cursors("demo", owner="u:ann", text="%") == 0

    @pytest.mark.spec("ONCE-03")
    async def test_cursors_of_all_hubs_come_with_the_heads_of_their_channels(
        self, store: Store
    ) -> None:
        term = await fill(store, 5)
        await delete_before(store, 3, term)
        other = SavedCursor("other", "empty", "u:ann", "a", 0, b"")
        for each in (cursor("a", 4), cursor("b"), other):
            await store.save_cursor(each, PARTITION, term)
        head = ChannelHead(EPOCH, 5, 3)
        assert await store.read_cursor_page(None, 2) == [
            (cursor("a", 4), head),
            (cursor("b"), head),
        ]
        behind = ("demo", "news", "u:ann", "b")
        assert await store.read_cursor_page(behind, 2) == [(other, None)]

    @pytest.mark.spec("ONCE-03")
    async def test_cursors_are_found_by_channel_and_by_owner(self, make_store: MakeStore) -> None:
        async with opened(make_store()) as store:
            term = await own(store)
            for each in (cursor("b"), cursor("a", 3), cursor("a", 1, "zoo"), cursor(owner="u:bob")):
                await store.save_cursor(each, PARTITION, term)
            await store.save_cursor(cursor("b", 9), PARTITION, term)
        async with opened(make_store()) as store:
            assert await store.read_cursors("demo", "news") == [
                cursor("a", 3),
                cursor("b", 9),
                cursor("a", owner="u:bob"),
            ]
            assert await store.read_cursors("demo", owner="u:ann") == [
                cursor("a", 3),
                cursor("b", 9),
                cursor("a", 1, "zoo"),
            ]
            assert await store.read_cursors("demo", "zoo", "u:bob") == []
            assert await store.read_cursors("other") == []
            term = await own(store)
            gone = ("demo", "news", "u:ann", "b", PARTITION, term)
            assert await store.delete_cursor(*gone) is True
            assert await store.delete_cursor(*gone) is False
            assert len(await store.read_cursors("demo")) == 3
