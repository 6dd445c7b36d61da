"""Notifications, their read state and the numbers of their channels."""

from __future__ import annotations

import asyncio

import pytest

from contract.storage.records import EPOCH, PARTITION, MakeStore, opened, own
from hubbub.domain.errors import StaleOwner
from hubbub.domain.notifications import (
    Notification,
    NotificationItem,
    NotificationState,
    PageNotifications,
    Selection,
)
from hubbub.ports.storage import Store
from hubbub.ports.storage.notifications import (
    ChannelKey,
    CreatedNotifications,
    NotificationBounds,
    StoredCreation,
)

CHANNEL = "notification:ann"
BOUNDS = NotificationBounds(most=1000, age_ms=90 * 86_400_000)
NOW = 1_700_000_000_000


def item(identifier: str, **other: object) -> NotificationItem:
    fields: dict[str, object] = {
        "event": "order",
        "payload": b'{"n":1}',
        "content_type": "application/json",
    }
    return NotificationItem(id=identifier, **(fields | other))  # type: ignore[arg-type]


def key(term: int, channel: str = CHANNEL, hub: str = "demo") -> ChannelKey:
    return ChannelKey(hub, channel, PARTITION, term)


async def create(
    store: Store,
    term: int,
    *ids: str,
    now: int = NOW,
    bounds: NotificationBounds = BOUNDS,
    channel: str = CHANNEL,
) -> CreatedNotifications:
    items = [item(each) for each in ids]
    return await store.create_notifications(key(term, channel), EPOCH, items, now, bounds)


async def page(store: Store, **bounds: object) -> list[Notification]:
    query = PageNotifications("demo", CHANNEL, **({"limit": 100} | bounds))  # type: ignore[arg-type]
    found = await store.read_notifications(query)
    return list(found.notifications) if found is not None else []


async def page_ids(store: Store, **bounds: object) -> list[str]:
    return [each.id for each in await page(store, **bounds)]


class NotificationsContract:
    @pytest.mark.spec("NOTE-01")
    async def test_notifications_survive_with_the_numbers_of_their_channel(
        self, make_store: MakeStore
    ) -> None:
        async with opened(make_store()) as store:
            term = await own(store)
            assert await store.read_notification_state("demo", CHANNEL) is None
            created = await create(store, term, "a", "b")
            assert created.state == NotificationState(EPOCH, 2, 2, 2, NOW + 1)
            times = [NOW, NOW + 1]
            assert created.creations == tuple(StoredCreation("created", at) for at in times)
        async with opened(make_store()) as store:
            loaded = await store.read_notification_state("demo", CHANNEL)
            assert loaded is not None
            assert loaded.state == created.state
            assert loaded.due_at == NOW + BOUNDS.age_ms
            newest, oldest = await page(store)
            assert oldest == Notification("a", NOW, "order", b'{"n":1}', "application/json")
            assert (newest.id, newest.read) == ("b", False)

    @pytest.mark.spec("NOTE-01")
    async def test_timestamps_rise_strictly_though_the_clock_is_set_back(
        self, store: Store
    ) -> None:
        term = await own(store)
        await create(store, term, "a", "b", "c")
        await create(store, term, "d", now=NOW - 5000)
        found = await page(store, after=0)
        assert [each.timestamp for each in found] == [NOW, NOW + 1, NOW + 2, NOW + 3]
        assert [each.id for each in found] == ["a", "b", "c", "d"]

    @pytest.mark.spec("NOTE-01")
    async def test_a_given_id_makes_creation_repeatable(self, store: Store) -> None:
        term = await own(store)
        await create(store, term, "a")
        other = item("a", payload=b"{}")
        items = [item("a"), other, item("b"), item("b"), item("b", author="ann")]
        again = await store.create_notifications(key(term), EPOCH, items, NOW + 9, BOUNDS)
        assert [each.outcome for each in again.creations] == [
            "duplicate",
            "conflict",
            "created",
            "duplicate",
            "conflict",
        ]
        assert again.creations[0].timestamp == NOW
        assert again.state.total == again.state.revision == 2
        assert [each.payload for each in await page(store)] == [b'{"n":1}'] * 2

    async def test_an_old_term_creates_and_marks_nothing(self, store: Store) -> None:
        term = await own(store)
        await create(store, term, "a")
        await own(store)
        with pytest.raises(StaleOwner):
            await create(store, term, "b")
        with pytest.raises(StaleOwner):
            await store.mark_notifications(key(term), EPOCH, Selection(all=True), NOW, None)
        assert [each.read for each in await page(store)] == [False]

    @pytest.mark.spec("NOTE-01")
    async def test_marking_is_idempotent_and_lists_unknown_ids(self, store: Store) -> None:
        term = await own(store)
        await create(store, term, "a", "b", "c")
        which = Selection(("b", "x", "b"))
        marked = await store.mark_notifications(key(term), EPOCH, which, NOW + 50, "ann")
        assert marked.changed == (("b", NOW + 1),)
        assert marked.unknown == ("x",)
        assert (marked.state.unread, marked.state.revision) == (2, 4)
        again = await store.mark_notifications(key(term), EPOCH, which, NOW + 60, "bob")
        assert (again.changed, again.unknown) == ((), ("x",))
        assert again.state == marked.state
        (found,) = [each for each in await page(store) if each.id == "b"]
        assert (found.read_at, found.read_by) == (NOW + 50, "ann")
        assert await page_ids(store, unread=True) == ["c", "a"]

    @pytest.mark.spec("NOTE-01")
    async def test_marking_up_to_a_time_leaves_what_came_later_unread(self, store: Store) -> None:
        term = await own(store)
        await create(store, term, "a", "b", "c")
        marked = await store.mark_notifications(
            key(term), EPOCH, Selection(up_to=NOW + 1), NOW + 50, None
        )
        assert [each for each, _ in marked.changed] == ["a", "b"]
        assert await page_ids(store, unread=True) == ["c"]
        everything = await store.mark_notifications(
            key(term), EPOCH, Selection(all=True), NOW + 51, None
        )
        assert [each for each, _ in everything.changed] == ["c"]
        assert everything.state.unread == 0

    async def test_marking_as_unread_takes_time_and_reader_away(self, store: Store) -> None:
        term = await own(store)
        await create(store, term, "a", "b")
        await store.mark_notifications(key(term), EPOCH, Selection(all=True), NOW, "ann")
        back = await store.mark_notifications(key(term), EPOCH, Selection(("a",)), None, "ann")
        assert (back.changed, back.state.unread) == ((("a", NOW),), 1)
        (found,) = await page(store, unread=True)
        assert (found.id, found.read_at, found.read_by) == ("a", None, None)

    @pytest.mark.spec("NOTE-01")
    async def test_pages_by_timestamp_leave_none_out_and_double_none(self, store: Store) -> None:
        term = await own(store)
        await create(store, term, *"abcdefg")
        await store.mark_notifications(key(term), EPOCH, Selection(("d",)), NOW, None)
        assert await page_ids(store, limit=3) == ["g", "f", "e"]
        assert await page_ids(store, limit=3, before=NOW + 4) == ["d", "c", "b"]
        assert await page_ids(store, limit=3, before=NOW + 4, unread=True) == ["c", "b", "a"]
        assert await page_ids(store, limit=2, after=NOW + 1) == ["c", "d"]
        assert await page_ids(store, limit=2, after=NOW + 1, unread=True) == ["c", "e"]
        query = PageNotifications("demo", CHANNEL, 7)
        whole = await store.read_notifications(query)
        assert whole is not None
        assert (len(whole.notifications), whole.more, whole.state.unread) == (7, False, 6)

    async def test_the_oldest_go_where_there_are_too_many(self, store: Store) -> None:
        term = await own(store)
        before = await store.stored_bytes("demo")
        bounds = NotificationBounds(most=3, age_ms=1000)
        await create(store, term, "a", "b", bounds=bounds)
        await store.mark_notifications(key(term), EPOCH, Selection(("a",)), NOW, None)
        created = await create(store, term, "c", "d", "e", bounds=bounds)
        assert created.freed == 2 * len(item("a").payload)
        assert (created.state.total, created.state.unread) == (3, 3)
        assert await page_ids(store) == ["e", "d", "c"]
        assert await store.stored_bytes("demo") - before == 3 * len(item("a").payload)

    async def test_expired_ones_are_found_and_deleted(self, store: Store) -> None:
        term = await own(store)
        items = [item("a", expires_at=NOW + 10), item("b", expires_at=NOW + 30), item("c")]
        await store.create_notifications(key(term), EPOCH, items, NOW, BOUNDS)
        await create(store, term, "z", channel="notification:bob")
        assert await store.read_due_notifications(NOW + 9, ("", ""), 10) == []
        due = await store.read_due_notifications(NOW + 10, ("", ""), 10)
        assert due == [("demo", CHANNEL)]
        assert await store.read_due_notifications(NOW + 10, ("demo", CHANNEL), 10) == []
        gone = await store.expire_notifications(key(term), EPOCH, NOW + 10)
        assert gone.changed == (("a", NOW),)
        assert (gone.state.total, gone.state.unread, gone.state.revision) == (2, 2, 4)
        assert gone.due_at == NOW + 30
        assert await store.read_due_notifications(NOW + 29, ("", ""), 10) == []

    async def test_deleting_counts_and_names_what_is_unknown(self, store: Store) -> None:
        term = await own(store)
        await create(store, term, "a", "b", "c")
        gone = await store.delete_notifications(key(term), EPOCH, Selection(("a", "x")))
        assert (gone.changed, gone.unknown) == ((("a", NOW),), ("x",))
        assert (gone.state.total, gone.state.unread, gone.state.revision) == (2, 2, 4)
        assert gone.freed == len(item("a").payload)
        everything = await store.delete_notifications(key(term), EPOCH, Selection(all=True))
        assert (everything.state.total, everything.state.newest) == (0, NOW + 2)

    async def test_what_was_never_there_is_not_made_by_marking(self, store: Store) -> None:
        term = await own(store)
        marked = await store.mark_notifications(key(term), "new", Selection(("a",)), NOW, None)
        assert (marked.changed, marked.unknown) == ((), ("a",))
        assert marked.state == NotificationState("new", 0, 0, 0, 0)
        assert await store.read_notification_state("demo", CHANNEL) is None

    async def test_a_user_leaves_no_trace_in_notifications(self, store: Store) -> None:
        term = await own(store)
        await create(store, term, "a")
        mine = [item("b", author="ann"), item("c", author="bob")]
        other = key(term, "notification:all")
        await store.create_notifications(other, EPOCH, mine, NOW, BOUNDS)
        await store.mark_notifications(other, EPOCH, Selection(all=True), NOW, "ann")
        assert await store.forget_notifications(key(term)) == len(item("a").payload)
        assert await store.read_notification_state("demo", CHANNEL) is None
        assert await store.forget_notifications(key(term)) == 0
        assert await store.anonymise_notifications("demo", "ann") == 3
        found = await store.read_notifications(PageNotifications("demo", "notification:all", 9))
        assert found is not None
        assert {(each.author, each.read_by) for each in found.notifications} == {
            (None, None),
            ("bob", None),
        }

    async def test_a_deleted_hub_takes_its_notifications_along(self, store: Store) -> None:
        term = await own(store)
        await create(store, term, "a", "b")
        await store.delete_hub("demo")
        assert await store.read_notification_state("demo", CHANNEL) is None
        assert await page_ids(store) == []
        assert await store.stored_bytes("demo") == 0

    @pytest.mark.spec("NOTE-01")
    async def test_marks_that_race_with_arrivals_keep_the_numbers_right(self, store: Store) -> None:
        term = await own(store)
        work = []
        for n in range(30):
            work.append(create(store, term, f"n{n}", f"m{n}"))
            work.append(
                store.mark_notifications(key(term), EPOCH, Selection(all=True), NOW + n, None)  # type: ignore[arg-type]
            )
        await asyncio.gather(*work)
        loaded = await store.read_notification_state("demo", CHANNEL)
        assert loaded is not None
        unread = await page_ids(store, unread=True)
        assert loaded.state.unread == len(unread)
        assert loaded.state.total == len(await page(store)) == 60
