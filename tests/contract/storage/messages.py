"""Partitions, stored messages and retained ones.."""

from __future__ import annotations

import asyncio
import random

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
    own,
    serials,
)
from hubbub.domain.errors import Conflict, StaleOwner
from hubbub.domain.messages import Attributes
from hubbub.domain.push.tokens import PushToken
from hubbub.ports.storage import Store
from hubbub.ports.storage.messages import (
    Append,
    ChannelHead,
    Deleted,
    Retained,
    StoredChannel,
    StoredPage,
)
from hubbub.ports.storage.settings import SettingsEntry


class MessagesContract:
    # -- ownership -------------------------------------------------------------------------------

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
        assert await store.read_terms([1, 3, 4]) == {1: again[1], 3: again[3]}

    @pytest.mark.spec("CLU-02", "CLU-04")
    async def test_a_takeover_takes_only_what_nobody_took_since_its_terms_were_read(
        self, store: Store
    ) -> None:
        seen = await store.read_terms([61, 62])
        rightful = await store.acquire_partitions([61], "node-1", seen)
        late = await store.acquire_partitions([61, 62], "node-2", seen)
        assert (set(rightful), set(late)) == ({61}, {62})
        assert await store.read_terms([61, 62]) == {**rightful, **late}
        again = await store.acquire_partitions([61], "node-2", await store.read_terms([61]))
        assert again[61] > rightful[61]

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

    @pytest.mark.spec("ADMIN-03")
    @pytest.mark.parametrize("most", [1, 2, 3, 4, 7, 10_000])
    async def test_messages_of_a_user_are_found_slice_by_slice(
        self, store: Store, monkeypatch: pytest.MonkeyPatch, most: int
    ) -> None:
        monkeypatch.setattr("hubbub.storage.sql.store.SEARCH_SLICE", most)
        term = await own(store)
        sizes = {"a": 3, "b": 1, "c": 7, "d": 2, "e": 2}
        for channel, size in sizes.items():
            for serial in range(1, size + 1):
                stored = message(serial, channel)
                stored.publisher = "ann" if serial % 2 and channel != "d" else "bob"
                assert await store.append([append(stored, term)]) == [None]
        await store.delete_before("demo", "c", 3, PARTITION, term)
        assert await store.find_published("demo", "ann") == {"a": 2, "b": 1, "c": 3, "e": 1}
        assert await store.find_published("demo", "bob") == {"a": 1, "c": 2, "d": 2, "e": 1}
        assert await store.find_published("demo", "nobody") == {}
        assert await store.find_published("other", "ann") == {}

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

    # -- appending -------------------------------------------------------------------------------

    @pytest.mark.spec("LIVE-12", "LIVE-20", "OPS-03")
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
                location={"lat": 1.5, "lng": -2.25, "place": ["harbour", None]},
                headers={"k": "v", "": "\x00", "nested": {"n": [1, True, None]}},
                delivery_policy="p",
                producer_id="i",
                producer_seq=2**62,
                dead_letter_of="f",
                structured={"published": 7, "more": {"k": [None]}},
                media_type="text/x-log",
                traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                qos=1,
            ),
        )
        assert full.attributes is not None
        assert None not in [getattr(full.attributes, f) for f in full.attributes.__struct_fields__]
        items = [full, message(2, payload=b""), message(3, payload=b"\x00" * 500_000)]
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

    # -- reading ---------------------------------------------------------------------------------

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
        await store.save_push_token(PushToken("one", "ann", "fcm", "t"))
        await store.put_settings([SettingsEntry("rules", "one", "r", b"{}")])
        assert await store.read_head("two", "news") is None
        assert await store.read_retained("two", "news", 0) is None
        assert await store.read_push_tokens("two", ["ann"]) == []
        assert await store.read_settings("two") == []
        assert await store.stored_bytes("two") == 0
        assert await delete_before(store, 99, term, "two") == 0
        assert serials(await store.read_after("one", "news", 0, 9)) == [1, 2]

    # -- deleting --------------------------------------------------------------------------------

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
        a = StoredChannel("demo", "a", EPOCH, 2, 1, 1000, 20, 2000)
        b = StoredChannel("demo", "b", EPOCH, 3, 1, 1000, 30, 3000)
        c = StoredChannel("demo", "c", EPOCH, 1, 1, 1000, 10, 1000)
        news = StoredChannel("demo", "news", EPOCH, 5, 4, 4000, 20, 5000)
        assert await store.read_channels("demo", "", 3) == [a, b, c]
        assert await store.read_channels("demo", "c", 3) == [news]
        assert await store.read_channels("demo", "news", 2, True) == [c, b]
        assert await store.read_channels("demo", "b", 2, True) == [a]
        named = await store.read_channels_named("demo", ["none", "c", "a"])
        assert sorted(named, key=lambda each: each.name) == [a, c]
        await delete_before(store, 6, term)
        assert await store.read_channels("demo", "c", 3) == []
        assert await store.read_channels_named("demo", ["news"]) == []
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

    # -- retained --------------------------------------------------------------------------------

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

    @pytest.mark.spec("MQTT-04")
    async def test_channels_with_a_retained_message_are_found_by_name(self, store: Store) -> None:
        term = await own(store)
        for channel, until in (("b:2", 100), ("a", 100), ("b:1", 100), ("b:0", 50), ("Ü", 100)):
            kept = message(0, id=channel, channel=channel)
            await store.save_retained(kept, until, PARTITION, term)
        assert await store.read_retained_channels("demo", "b:", 60, 10) == ["b:1", "b:2", "Ü"]
        assert await store.read_retained_channels("demo", "", 60, 2) == ["a", "b:1"]
        assert await store.read_retained_channels("other", "", 60, 2) == []

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
