"""What every adapter of `hubbub.ports.store.Store` must do.

A module that runs it derives a class from `StoreContract` and overrides `make_store`. Nothing in
here may assume a particular database.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest

from contract.webhook_store_contract import WebhookStoreContract
from hubbub.domain.errors import Conflict, StaleOwner, StoreUnavailable, VersionMismatch
from hubbub.domain.messages import Attributes, Location, Message
from hubbub.ports.store import (
    Append,
    AuditEntry,
    AuditQuery,
    ChannelHead,
    Cursor,
    Deleted,
    Exported,
    Producer,
    PushToken,
    Retained,
    Revocation,
    SessionSnapshot,
    SettingsEntry,
    Store,
    StoredChannel,
    StoredPage,
)

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
    store: Store, term: int, channel: str = "news", take_over: bool = False, who: str = "u:ann"
) -> Producer:
    return await store.open_producer("demo", channel, who, "p", PARTITION, term, take_over)


def put(item: Message, term: int, producer: Producer, sequence: int) -> Append:
    return Append(item, EPOCH, PARTITION, term, producer=producer.id, sequence=sequence)


def cursor(name: str = "a", floor: int = 0, channel: str = "news", owner: str = "u:ann") -> Cursor:
    return Cursor("demo", channel, owner, name, floor, b"state of %d" % floor)


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
    return refused.value.message


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


class StoreContract(WebhookStoreContract):
    @pytest.fixture
    def make_store(self) -> MakeStore:
        """Makes stores, not yet open, that all stand on the same data, empty at first."""
        raise NotImplementedError

    @pytest.fixture
    async def store(self, make_store: MakeStore) -> AsyncIterator[Store]:
        store = make_store()
        await store.open()
        yield store
        await store.close()

    # -- life ---------------------------------------------------------------------------------

    async def test_a_store_that_is_not_open_says_so(self, make_store: MakeStore) -> None:
        store = make_store()
        with pytest.raises(StoreUnavailable):
            await store.read_head("demo", "news")
        await store.open()
        await store.close()
        with pytest.raises(StoreUnavailable):
            await store.append([append(message(1), 1)])

    async def test_closing_twice_or_unopened_does_nothing(self, make_store: MakeStore) -> None:
        store = make_store()
        await store.close()
        await store.open()
        await store.close()
        await store.close()

    @pytest.mark.spec("LIVE-12", "OPS-03")
    async def test_closing_finishes_writes_that_were_started(self, make_store: MakeStore) -> None:
        store = make_store()
        await store.open()
        term = await own(store)
        calls = [
            asyncio.ensure_future(store.append([append(message(n), term)])) for n in range(1, 301)
        ]
        await asyncio.sleep(0)
        await store.close()
        assert await asyncio.gather(*calls) == [[None]] * 300
        await store.open()
        head = await store.read_head("demo", "news")
        await store.close()
        assert head == ChannelHead(EPOCH, 300, 1)

    # -- ownership ----------------------------------------------------------------------------

    async def test_each_takeover_raises_the_terms_of_its_partitions_only(
        self, store: Store
    ) -> None:
        first = await store.acquire_partitions([1, 2], "node-1")
        second = await store.acquire_partitions([2, 3], "node-2")
        again = await store.acquire_partitions([1, 2, 3], "node-2")
        assert second[2] > first[2]
        assert again[1] > first[1]
        assert again[2] > second[2]
        assert set(second) == {2, 3}

    async def test_every_node_has_a_number_that_only_it_raises(self, store: Store) -> None:
        assert await store.count_beat("east") == {"east": 1}
        assert await store.count_beat("west") == {"east": 1, "west": 1}
        assert await store.count_beat("east") == {"east": 2, "west": 1}
        await store.forget_node("east")
        await store.forget_node("nobody")
        assert await store.count_beat("west") == {"west": 2}

    async def test_terms_keep_rising_after_a_restart(self, make_store: MakeStore) -> None:
        terms = []
        for _ in range(3):
            store = make_store()
            await store.open()
            terms.append(await own(store))
            await store.close()
        assert terms == sorted(set(terms))

    @pytest.mark.spec("OPS-03")
    async def test_every_write_under_an_older_term_is_refused(self, store: Store) -> None:
        old = await own(store)
        await store.append([append(message(1), old)])
        await store.save_retained(message(1), 10_000, PARTITION, old)
        new = await own(store, "node-2")
        (refused,) = await store.append([append(message(2), old, retain_until=10_000)])
        assert isinstance(refused, StaleOwner)
        with pytest.raises(StaleOwner):
            await store.save_retained(message(9), 10_000, PARTITION, old)
        with pytest.raises(StaleOwner):
            await store.delete_retained("demo", "news", PARTITION, old)
        with pytest.raises(StaleOwner):
            await open_producer(store, old, take_over=True)
        with pytest.raises(StaleOwner):
            await store.save_cursor(cursor(), PARTITION, old)
        with pytest.raises(StaleOwner):
            await store.delete_cursor("demo", "news", "u:ann", "a", PARTITION, old)
        assert await store.read_cursors("demo") == []
        assert (await open_producer(store, new)).fence == 0
        retained = await store.read_retained("demo", "news", 0)
        assert retained is not None
        assert retained.message.serial == 1
        assert await store.read_head("demo", "news") == ChannelHead(EPOCH, 1, 1)
        assert await store.append([append(message(2), new)]) == [None]

    async def test_a_partition_that_nobody_took_is_nobodys_to_write(self, store: Store) -> None:
        (refused,) = await store.append([append(message(1), 0)])
        assert isinstance(refused, StaleOwner)
        (refused,) = await store.append([append(message(1), 1)])
        assert isinstance(refused, StaleOwner)

    # -- appending ----------------------------------------------------------------------------

    @pytest.mark.spec("LIVE-12", "OPS-03")
    async def test_every_part_of_a_message_survives_a_restart(self, make_store: MakeStore) -> None:
        full = message(
            1,
            id="id ' \" \x00 ñ 🐝",
            event="é'v",
            payload=bytes(range(256)),
            content_type="application/octet-stream",
            publisher="ann",
            store=True,
            retain=True,
            push=True,
            transient=True,
            attributes=Attributes(
                subtype="s",
                author="a",
                sender="b",
                receiver="c",
                conversation_id="d",
                refers_to="e",
                priority=5,
                relevant_until=2**53,
                ttl=1,
                language="fr",
                location=Location(1.5, -2.25),
                headers={"k": "v", "": "\x00"},
                delivery_policy="p",
                security_token="t",
                producer_id="i",
                producer_seq=2**62,
            ),
        )
        assert full.attributes is not None
        assert None not in [getattr(full.attributes, f) for f in full.attributes.__struct_fields__]
        items = [full, message(2, payload=b""), message(3, payload=b"\x00" * 1_000_000)]
        store = make_store()
        await store.open()
        term = await own(store)
        written = await store.append([append(item, term, retain_until=99) for item in items])
        await store.close()
        assert written == [None] * 3
        store = make_store()
        await store.open()
        page = await store.read_after("demo", "news", 0, 10)
        retained = await store.read_retained("demo", "news", 98)
        await store.close()
        assert list(page.messages) == items
        assert retained == Retained(items[2], 99)

    async def test_appending_nothing_answers_nothing(self, store: Store) -> None:
        assert await store.append([]) == []

    async def test_overlapping_appends_take_effect_in_the_order_of_their_start(
        self, store: Store
    ) -> None:
        term = await own(store)
        calls = [store.append([append(message(n), term)]) for n in range(1, 501)]
        assert await asyncio.gather(*calls) == [[None]] * 500
        page = await store.read_after("demo", "news", 0, 1000)
        assert serials(page) == list(range(1, 501))

    async def test_one_call_may_hold_many_messages_of_many_hubs(self, store: Store) -> None:
        term = await own(store)
        hubs = ["a", "b", "c"]
        items = [message(n, hub=hub) for n in range(1, 1201) for hub in hubs]
        assert await store.append([append(item, term) for item in items]) == [None] * 3600
        for hub in hubs:
            assert await store.read_head(hub, "news") == ChannelHead(EPOCH, 1200, 1)

    async def test_a_refused_append_touches_only_its_own_channel(self, store: Store) -> None:
        term = await own(store)
        results = await store.append(
            [
                append(message(1, "a"), term),
                append(message(1, "b"), term + 1, retain_until=99),
                append(message(2, "a"), term),
                append(message(2, "b"), term),
                append(message(1, "c"), term),
            ]
        )
        assert [type(result) for result in results] == [
            type(None),
            StaleOwner,
            type(None),
            Conflict,
            type(None),
        ]
        assert serials(await store.read_after("demo", "a", 0, 9)) == [1, 2]
        assert await store.read_head("demo", "b") is None
        assert await store.read_retained("demo", "b", 0) is None
        assert serials(await store.read_after("demo", "c", 0, 9)) == [1]

    @pytest.mark.parametrize(
        ("serial", "epoch"), [(2, EPOCH), (4, EPOCH), (3, "other"), (1, "other"), (0, EPOCH)]
    )
    async def test_an_append_that_does_not_continue_the_head_is_a_conflict(
        self, store: Store, serial: int, epoch: str
    ) -> None:
        term = await fill(store, 2)
        stray = message(serial, id="stray")
        (refused,) = await store.append([Append(stray, epoch, PARTITION, term)])
        assert isinstance(refused, Conflict)
        assert "news" in refused.message
        page = await store.read_after("demo", "news", 0, 10)
        assert serials(page) == [1, 2]
        assert page.head == ChannelHead(EPOCH, 2, 1)

    async def test_a_channel_begins_with_serial_one(self, store: Store) -> None:
        term = await own(store)
        (refused,) = await store.append([append(message(2), term)])
        assert isinstance(refused, Conflict)
        assert await store.read_head("demo", "news") is None
        assert await store.append([append(message(1), term)]) == [None]

    async def test_a_caller_that_stops_waiting_disturbs_nobody(self, store: Store) -> None:
        term = await own(store)
        impatient = asyncio.ensure_future(store.append([append(message(1), term)]))
        patient = asyncio.ensure_future(store.append([append(message(1, "other"), term)]))
        await asyncio.sleep(0)
        impatient.cancel()
        assert await patient == [None]
        assert await store.append([append(message(2, "other"), term)]) == [None]

    @pytest.mark.spec("OPS-03")
    async def test_a_message_that_no_database_can_take_fails_alone(self, store: Store) -> None:
        term = await own(store)
        results = await asyncio.gather(
            store.append([append(message(1, "a"), term)]),
            store.append([append(message(1, "b", published_at=2**63), term)]),
            store.append([append(message(1, "c", published_at=2**70), term)]),
            store.append([append(message(1, "d", id="\ud800"), term)]),
            store.append([append(message(1, "e"), term)]),
            return_exceptions=True,
        )
        assert results[0] == [None]
        assert results[4] == [None]
        for channel in "bcd":
            assert await store.read_head("demo", channel) is None

    # -- reading ------------------------------------------------------------------------------

    @pytest.mark.spec("LIVE-13")
    async def test_a_channel_without_messages_answers_empty_pages(self, store: Store) -> None:
        nothing = StoredPage((), False, None)
        assert await store.read_head("demo", "news") is None
        assert await store.read_after("demo", "news", 0, 10) == nothing
        assert await store.read_before("demo", "news", None, 10) == nothing
        assert await store.read_after_time("demo", "news", 0, 10) == nothing
        assert await store.read_before_time("demo", "news", 10, 10) == nothing

    @pytest.mark.spec("LIVE-13")
    async def test_pages_go_forwards_and_backwards_and_tell_of_more(self, store: Store) -> None:
        await fill(store, 10)
        after = [(0, 3), (7, 3), (6, 3), (10, 3), (99, 3), (0, 10), (0, 9), (-5, 2)]
        pages = [await store.read_after("demo", "news", *query) for query in after]
        assert [(serials(page), page.more) for page in pages] == [
            ([1, 2, 3], True),
            ([8, 9, 10], False),
            ([7, 8, 9], True),
            ([], False),
            ([], False),
            (list(range(1, 11)), False),
            (list(range(1, 10)), True),
            ([1, 2], True),
        ]
        before = [(None, 3), (4, 3), (5, 3), (1, 3), (None, 10), (99, 2)]
        pages = [await store.read_before("demo", "news", *query) for query in before]
        assert [(serials(page), page.more) for page in pages] == [
            ([8, 9, 10], True),
            ([1, 2, 3], False),
            ([2, 3, 4], True),
            ([], False),
            (list(range(1, 11)), False),
            ([9, 10], True),
        ]
        assert {page.head for page in pages} == {ChannelHead(EPOCH, 10, 1)}

    @pytest.mark.spec("LIVE-13")
    async def test_reads_by_time_are_right_even_where_the_clock_was_set_back(
        self, store: Store
    ) -> None:
        choose = random.Random(4711)
        term = await own(store)
        times: list[int] = []
        now = 50
        for _ in range(150):
            now = max(0, now + choose.choice([0, 1, 1, 2, 3, -20 if choose.random() < 0.2 else 1]))
            times.append(now)
        items = [message(n, published_at=time) for n, time in enumerate(times, 1)]
        assert not any(await store.append([append(item, term) for item in items]))
        for first in (1, 40):
            await delete_before(store, first, term)
            left = [item for item in items if item.serial >= first]
            for time in range(-1, max(times) + 3, 3):
                later = [item.serial for item in left if item.published_at > time]
                earlier = [item.serial for item in left if item.published_at < time]
                for limit in (1, 7, 200):
                    page = await store.read_after_time("demo", "news", time, limit)
                    assert serials(page) == later[:limit]
                    assert page.more == (len(later) > limit)
                    page = await store.read_before_time("demo", "news", time, limit)
                    assert serials(page) == earlier[-limit:]
                    assert page.more == (len(earlier) > limit)

    @pytest.mark.spec("OPS-03")
    async def test_hubs_do_not_see_each_others_data(self, store: Store) -> None:
        term = await fill(store, 2, hub="one")
        await store.save_retained(message(2, hub="one"), 99, PARTITION, term)
        await store.save_push_token(PushToken("one", "ann", "web", "t"))
        await store.put_settings([SettingsEntry("rules", "one", "r", b"{}")])
        assert await store.read_head("two", "news") is None
        assert await store.read_retained("two", "news", 0) is None
        assert await store.read_push_tokens("two", "ann") == []
        assert await store.read_settings("two") == []
        assert await store.stored_bytes("two") == 0
        assert await delete_before(store, 99, term, "two") == 0
        assert serials(await store.read_after("one", "news", 0, 9)) == [1, 2]

    # -- deleting -----------------------------------------------------------------------------

    @pytest.mark.spec("LIVE-13")
    async def test_deleting_keeps_the_head_and_moves_the_first(self, store: Store) -> None:
        term = await fill(store, 5)
        assert await delete_before(store, 4, term) == 3
        assert await delete_before(store, 4, term) == 0
        assert await delete_before(store, 2, term) == 0
        page = await store.read_after("demo", "news", 0, 9)
        assert (serials(page), page.head) == ([4, 5], ChannelHead(EPOCH, 5, 4))
        assert await delete_before(store, 999, term) == 2
        assert await store.read_head("demo", "news") == ChannelHead(EPOCH, 5, 6)
        assert await store.append([append(message(6), term)]) == [None]
        page = await store.read_before("demo", "news", None, 9)
        assert (serials(page), page.head) == ([6], ChannelHead(EPOCH, 6, 6))

    async def test_a_long_deletion_reaches_its_end(self, store: Store) -> None:
        term = await fill(store, 4500)
        assert await delete_before(store, 4500, term) == 4499
        assert await store.read_head("demo", "news") == ChannelHead(EPOCH, 4500, 4500)
        assert await store.stored_bytes("demo") == 10

    async def test_stored_bytes_follow_what_is_there(self, make_store: MakeStore) -> None:
        store = make_store()
        await store.open()
        term = await fill(store, 3)
        await store.append([append(message(1, "other", payload=b"12345"), term)])
        await store.append([append(message(7, "other", payload=b"refused"), term)])
        assert await store.stored_bytes("demo") == 35
        await store.close()
        store = make_store()
        await store.open()
        assert await store.stored_bytes("demo") == 35
        await delete_before(store, 3, await own(store))
        assert await store.stored_bytes("demo") == 15
        await store.close()

    @pytest.mark.spec("ONCE-03")
    async def test_an_owner_whose_place_was_taken_deletes_nothing(self, store: Store) -> None:
        stale = await fill(store, 5)
        await own(store, "node-2")
        with pytest.raises(StaleOwner, match=f"partition {PARTITION}"):
            await delete_before(store, 4, stale)
        assert await store.read_head("demo", "news") == ChannelHead(EPOCH, 5, 1)

    @pytest.mark.spec("ONCE-03")
    async def test_deleting_spares_what_a_cursor_has_not_passed(self, store: Store) -> None:
        term = await fill(store, 9)
        await store.save_cursor(cursor("a", 6), PARTITION, term)
        await store.save_cursor(cursor("b", 3), PARTITION, term)
        await store.save_cursor(cursor("c", 0, "other"), PARTITION, term)
        which = ("demo", "news", 9, PARTITION, term)
        assert await store.delete_before(*which, spare_unread=True) == Deleted(3, 30, 4)
        assert await store.delete_before(*which, spare_unread=True) == Deleted(0, 0, 4)
        await store.save_cursor(cursor("b", 99), PARTITION, term)
        assert await store.delete_before(*which, spare_unread=True) == Deleted(3, 30, 7)
        assert await store.delete_before(*which) == Deleted(2, 20, 9)
        assert await store.delete_before(*which) == Deleted(0, 0, 9)

    @pytest.mark.spec("ONCE-03")
    async def test_channels_that_hold_messages_are_listed_in_pages(self, store: Store) -> None:
        term = await own(store)
        assert await store.read_stored_hubs() == []
        for channel, count in (("b", 3), ("a", 2), ("news", 5), ("c", 1)):
            items = [append(message(n, channel), term) for n in range(1, count + 1)]
            await store.append(items)
        await store.append([append(message(1, hub="other"), term)])
        await delete_before(store, 4, term)
        a = StoredChannel("demo", "a", EPOCH, 2, 1, 1000, 20)
        b = StoredChannel("demo", "b", EPOCH, 3, 1, 1000, 30)
        c = StoredChannel("demo", "c", EPOCH, 1, 1, 1000, 10)
        news = StoredChannel("demo", "news", EPOCH, 5, 4, 4000, 20)
        assert await store.read_channels("demo", "", 3) == [a, b, c]
        assert await store.read_channels("demo", "c", 3) == [news]
        await delete_before(store, 6, term)
        assert await store.read_channels("demo", "c", 3) == []
        assert await store.read_stored_hubs() == ["demo", "other"]

    @pytest.mark.spec("ONCE-03")
    async def test_the_first_message_of_a_time_is_found(self, store: Store) -> None:
        term = await own(store)
        times = [10, 20, 20, 5, 30]
        items = [message(n, published_at=time) for n, time in enumerate(times, 1)]
        await store.append([append(item, term) for item in items])
        found = [await store.first_at("demo", "news", time) for time in (0, 10, 11, 20, 21, 30, 31)]
        assert found == [1, 1, 2, 2, 5, 5, 6]
        await delete_before(store, 3, term)
        assert await store.first_at("demo", "news", 0) == 3
        assert await store.first_at("demo", "nowhere", 7) == 1

    @pytest.mark.spec("ONCE-03")
    async def test_the_first_message_within_a_size_is_found(self, store: Store) -> None:
        term = await own(store)
        sizes = [5, 10, 0, 20, 1]
        items = [message(n, payload=b"x" * size) for n, size in enumerate(sizes, 1)]
        await store.append([append(item, term) for item in items])
        found = [await store.first_within("demo", "news", most) for most in (99, 36, 35, 31, 21, 1)]
        assert found == [1, 1, 2, 2, 3, 5]
        assert await store.first_within("demo", "news", 0) == 6
        await delete_before(store, 2, term)
        assert await store.first_within("demo", "news", 31) == 2
        assert await store.first_within("demo", "news", 30) == 3
        assert await store.first_within("demo", "nowhere", 7) == 1

    async def test_the_first_message_within_a_size_is_found_step_by_step(
        self, store: Store
    ) -> None:
        term = await fill(store, 12_000)
        cuts = [0]
        while cuts[-1] < 11_990:
            cuts.append(await store.first_within("demo", "news", 100))
            assert cuts[-1] > cuts[-2]
            await delete_before(store, cuts[-1], term)
        assert cuts[-1] == 11_991
        assert await store.first_within("demo", "news", 100) == 11_991

    # -- retained -----------------------------------------------------------------------------

    @pytest.mark.spec("LIVE-12")
    async def test_the_last_retained_message_stays_until_it_expires(self, store: Store) -> None:
        term = await own(store)
        await store.save_retained(message(0, id="first"), 50, PARTITION, term)
        await store.save_retained(message(0, id="second"), 100, PARTITION, term)
        retained = await store.read_retained("demo", "news", 99)
        assert retained == Retained(message(0, id="second"), 100)
        assert await store.read_retained("demo", "news", 100) is None
        await store.delete_retained("demo", "news", PARTITION, term)
        await store.delete_retained("demo", "news", PARTITION, term)
        assert await store.read_retained("demo", "news", 0) is None

    @pytest.mark.spec("LIVE-12")
    async def test_an_append_can_retain_and_the_last_of_a_call_wins(self, store: Store) -> None:
        term = await own(store)
        await store.append(
            [
                append(message(1), term, retain_until=10),
                append(message(2), term, retain_until=20),
                append(message(3), term),
            ]
        )
        assert await store.read_retained("demo", "news", 0) == Retained(message(2), 20)
        await delete_before(store, 99, term)
        assert await store.read_retained("demo", "news", 0) == Retained(message(2), 20)

    # -- settings -----------------------------------------------------------------------------

    async def test_settings_count_their_changes_and_come_back_in_order(self, store: Store) -> None:
        entries = [
            SettingsEntry("rules", "b", "x", b"1"),
            SettingsEntry("hub", "b", "b", b"2"),
            SettingsEntry("hub", "a", "a", b"3"),
        ]
        assert [entry.version for entry in await store.put_settings(entries)] == [1, 1, 1]
        (changed,) = await store.put_settings([SettingsEntry("hub", "b", "b", b"4", version=9)])
        assert changed == SettingsEntry("hub", "b", "b", b"4", 2)
        everything = await store.read_settings()
        assert [(e.kind, e.hub, e.value, e.version) for e in everything] == [
            ("hub", "a", b"3", 1),
            ("hub", "b", b"4", 2),
            ("rules", "b", b"1", 1),
        ]
        assert await store.read_settings("b") == everything[1:]

    async def test_settings_change_all_or_none_as_expected(self, store: Store) -> None:
        first, second = (
            SettingsEntry("rules", "h", "a", b"1"),
            SettingsEntry("rules", "h", "b", b""),
        )
        await store.put_settings([first], {"a": 0})
        for expected in ({"a": 0}, {"a": 1, "b": 1}, {"a": 2}, {"c": 0}):
            with pytest.raises(Conflict):
                await store.put_settings([second, first], expected)
        assert [(e.name, e.version) for e in await store.read_settings()] == [("a", 1)]
        await store.put_settings([second, first], {"a": 1, "b": 0})
        assert [(e.name, e.version) for e in await store.read_settings()] == [("a", 2), ("b", 1)]

    async def test_of_changes_that_expect_the_same_version_one_wins(self, store: Store) -> None:
        calls = [
            store.put_settings([SettingsEntry("rules", "h", "a", b"%d" % n)], {"a": 0})
            for n in range(10)
        ]
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert sum(isinstance(result, Conflict) for result in results) == 9

    async def test_a_deleted_setting_is_gone(self, store: Store) -> None:
        await store.put_settings([SettingsEntry("rules", "h", "a", b"1")])
        assert await store.delete_settings("rules", "h", "other") is False
        assert await store.delete_settings("rules", "h", "a") is True
        assert await store.delete_settings("rules", "h", "a") is False
        assert await store.read_settings() == []
        (again,) = await store.put_settings([SettingsEntry("rules", "h", "a", b"2")], {"a": 0})
        assert again.version == 1

    @pytest.mark.spec("ADMIN-01")
    async def test_a_setting_is_only_deleted_at_the_expected_version(self, store: Store) -> None:
        await store.put_settings([SettingsEntry("rules", "h", "a", b"1")])
        for version in (0, 2):
            with pytest.raises(VersionMismatch):
                await store.delete_settings("rules", "h", "a", version)
        with pytest.raises(VersionMismatch):
            await store.delete_settings("rules", "h", "other", 1)
        assert await store.delete_settings("rules", "h", "a", 1) is True

    # -- administration -----------------------------------------------------------------------

    @pytest.mark.spec("ADMIN-01")
    async def test_a_change_and_its_audit_are_stored_together(self, make_store: MakeStore) -> None:
        store = make_store()
        await store.open()
        entry = SettingsEntry("rules", "h", "a", b"1")
        await store.put_settings([entry], {"a": 0}, audit("put"))
        with pytest.raises(VersionMismatch):
            await store.put_settings([entry], {"a": 0}, audit("refused"))
        await store.delete_settings("rules", "h", "other", audit=audit("refused"))
        await store.delete_settings("rules", "h", "a", audit=audit("delete"))
        await store.close()
        store = make_store()
        await store.open()
        found = await store.read_audit(AuditQuery(limit=10))
        assert [entry.action for entry in found] == ["delete", "put"]
        assert found[1] == audit("put", id=found[1].id)
        await store.close()

    @pytest.mark.spec("ADMIN-01")
    async def test_audit_is_read_newest_first_by_hub_actor_and_action(self, store: Store) -> None:
        for number in range(6):
            await store.append_audit(
                audit("even" if number % 2 == 0 else "odd", at=number, hub=f"h{number // 3}")
            )
        await store.append_audit(audit("even", actor="bob", before=None, token_id=None))

        async def times(limit: int = 10, **which: object) -> list[int]:
            query = AuditQuery(limit=limit, **which)  # type: ignore[arg-type]
            return [entry.at for entry in await store.read_audit(query)]

        assert await times(hub="h1") == [5, 4, 3]
        assert await times(hub="h0", action="even") == [2, 0]
        assert await times(actor="bob") == [7]
        first = await store.read_audit(AuditQuery(limit=3))
        assert [entry.at for entry in first] == [7, 5, 4]
        assert await times(2, before_id=first[-1].id) == [3, 2]
        assert await store.delete_audit_before(3) == 3
        assert await times() == [7, 5, 4, 3]

    @pytest.mark.spec("ADMIN-03")
    async def test_revocations_only_ever_widen_until_they_expire(self, store: Store) -> None:
        token = Revocation("h", "token", "t1", 0, 100)
        user = Revocation("h", "user", "ann", 50, 100)
        other = Revocation("*", "token", "t1", 0, 200)
        await store.save_revocation(token, audit("revoke"))
        await store.save_revocation(user)
        await store.save_revocation(other)
        await store.save_revocation(Revocation("h", "user", "ann", 40, 90))
        assert await store.read_revocations("h", 99) == [token, user]
        assert await store.read_revocations(None, 99) == [other, token, user]
        assert await store.read_revocations(None, 100) == [other]
        assert len(await store.read_audit(AuditQuery(limit=9))) == 1
        assert await store.delete_expired(100) == 2
        assert await store.read_revocations(None, 0) == [other]

    @pytest.mark.spec("ADMIN-01", "OPS-03")
    async def test_a_deleted_hub_leaves_nothing_but_audit_and_revocations(
        self, store: Store
    ) -> None:
        term = await fill(store, 2500, hub="gone")
        await fill(store, 3, hub="stays")
        await store.put_settings(
            [SettingsEntry("hub", hub, "", b"{}") for hub in ("gone", "stays")]
        )
        await store.save_push_token(PushToken("gone", "ann", "web", "t1"))
        await store.save_sessions([SessionSnapshot(b"key", "gone", "s", b"", 100)])
        await store.save_revocation(Revocation("gone", "hub", "", 1, 100))
        term = await own(store)
        await store.save_retained(message(0, "a", "gone"), 100, PARTITION, term)
        await store.open_producer("gone", "news", "u:ann", "p", PARTITION, term, True)
        await store.save_cursor(Cursor("gone", "news", "u:ann", "a", 0, b""), PARTITION, term)
        assert await store.delete_hub("gone", audit("delete", hub="gone")) is True
        assert [entry.hub for entry in await store.read_settings()] == ["stays"]
        assert await store.read_head("gone", "news") is None
        assert await store.read_cursors("gone") == []
        anew = await store.open_producer("gone", "news", "u:ann", "p", PARTITION, term, False)
        assert (anew.fence, anew.sequence) == (0, 0)
        await store.delete_hub("gone")
        assert await store.stored_bytes("gone") == 0
        assert await store.read_retained("gone", "a", 0) is None
        assert await store.read_session(b"key", 0) is None
        assert await store.read_push_tokens("gone", "ann") == []
        assert len(await store.read_revocations("gone", 0)) == 1
        assert await store.delete_hub("gone", audit("delete")) is False
        assert len(await store.read_audit(AuditQuery(limit=9))) == 1
        assert serials(await store.read_after("stays", "news", 0, 9)) == [1, 2, 3]
        assert await store.stored_bytes("stays") == 30

    # -- topics -------------------------------------------------------------------------------

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
            assert await store.read_producer(*key) == Producer(first.id, 0, 2)
            assert await store.read_producer(*key[:3], "q") is None
            assert await open_producer(store, term) == Producer(first.id, 0, 2)
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
        assert await open_producer(store, term) == Producer(producer.id, 0, 5)
        await delete_before(store, 7, term)
        assert await open_producer(store, term) == Producer(producer.id, 0, 5)
        assert await store.read_put(producer.id, 5, "demo", "news") is None

    @pytest.mark.spec("ONCE-02")
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

    @pytest.mark.spec("ONCE-03")
    async def test_cursors_of_all_hubs_come_with_the_heads_of_their_channels(
        self, store: Store
    ) -> None:
        term = await fill(store, 5)
        await delete_before(store, 3, term)
        other = Cursor("other", "empty", "u:ann", "a", 0, b"")
        for each in (cursor("a", 4), cursor("b"), other):
            await store.save_cursor(each, PARTITION, term)
        head = ChannelHead(EPOCH, 5, 3)
        assert await store.read_places(None, 2) == [(cursor("a", 4), head), (cursor("b"), head)]
        behind = ("demo", "news", "u:ann", "b")
        assert await store.read_places(behind, 2) == [(other, None)]

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

    # -- sessions and push tokens -------------------------------------------------------------

    @pytest.mark.spec("LIVE-15")
    async def test_what_the_journal_has_is_remembered_and_never_taken_back(
        self, make_store: MakeStore
    ) -> None:
        async with opened(make_store()) as store:
            term = (await store.acquire_partitions([PARTITION], "a"))[PARTITION]
            assert await store.read_exported("demo", "news") == 0
            assert await store.read_unexported(None, 10) == []
            await store.append([append(message(serial), term) for serial in (1, 2, 3)])
            await store.append([append(message(1, "other"), term)])
            await store.append([append(message(1, hub="late"), term)])
            everything = [("demo", "news"), ("demo", "other"), ("late", "news")]
            assert await store.read_unexported(None, 10) == everything
            assert await store.read_unexported(None, 2) == everything[:2]
            assert await store.read_unexported(everything[1], 10) == everything[2:]
            await store.save_exported(
                [
                    Exported("late", "news", EPOCH, 1),
                    Exported("demo", "news", EPOCH, 2),
                    Exported("demo", "other", "another-epoch", 1),
                    Exported("demo", "gone", EPOCH, 1),
                ]
            )
            assert await store.read_unexported(None, 10) == everything[:2]
            await store.save_exported([Exported("demo", "news", EPOCH, 1)])
        async with opened(make_store()) as store:
            assert await store.read_exported("demo", "news") == 2
            assert await store.read_exported("demo", "other") == 0
            await store.save_exported([Exported("demo", "news", EPOCH, 3)])
            assert await store.read_unexported(None, 10) == [("demo", "other")]
            await store.delete_hub("demo")
            assert await store.read_exported("demo", "news") == 0

    async def test_sessions_are_kept_by_key_hash_until_they_expire(self, store: Store) -> None:
        one = SessionSnapshot(b"\x00one", "demo", "s1", b"\xffstate", 100)
        two = SessionSnapshot(b"two", "demo", "s2", b"", 100)
        await store.save_sessions([one, two])
        await store.save_sessions([])
        assert await store.read_session(b"\x00one", 99) == one
        assert await store.read_session(b"\x00one", 100) is None
        assert await store.read_session(b"three", 0) is None
        replaced = SessionSnapshot(b"two", "other", "s3", b"new", 200)
        await store.save_sessions([replaced])
        assert await store.read_session(b"two", 150) == replaced
        await store.delete_sessions([b"two", b"three"])
        assert await store.read_session(b"two", 0) is None
        assert await store.read_session(b"\x00one", 0) == one

    async def test_a_push_token_belongs_to_one_user_of_a_hub(self, store: Store) -> None:
        token = PushToken("demo", "ann", "web", "t1")
        for _ in range(2):
            await store.save_push_token(token)
        assert await store.read_push_tokens("demo", "ann") == [token]
        await store.save_push_token(PushToken("demo", "bob", "web", "t1"))
        await store.save_push_token(PushToken("other", "ann", "web", "t1"))
        assert await store.read_push_tokens("demo", "ann") == []
        assert await store.read_push_tokens("demo", "bob") == [
            PushToken("demo", "bob", "web", "t1")
        ]
        assert await store.delete_push_token("demo", "web", "t1") is True
        assert await store.delete_push_token("demo", "web", "t1") is False
        assert len(await store.read_push_tokens("other", "ann")) == 1

    async def test_upkeep_drops_what_has_expired_and_nothing_else(self, store: Store) -> None:
        term = await fill(store, 1)
        await store.save_retained(message(0, "a"), 100, PARTITION, term)
        await store.save_retained(message(0, "b"), 101, PARTITION, term)
        await store.save_sessions(
            [SessionSnapshot(bytes([n]), "demo", "s", b"", 99 + n) for n in range(4)]
        )
        assert await store.delete_expired(100) == 3
        assert await store.delete_expired(100) == 0
        assert await store.read_retained("demo", "a", 0) is None
        assert await store.read_retained("demo", "b", 0) is not None
        assert await store.read_session(b"\x02", 0) is not None
        assert await store.read_head("demo", "news") == ChannelHead(EPOCH, 1, 1)
