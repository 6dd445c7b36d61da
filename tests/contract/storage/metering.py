"""Counters that survive a restart."""

from __future__ import annotations

import pytest

from hubbub.domain.metering import CountedFigures, FiguresAt, HourOfDay, MeteredSlot
from hubbub.ports.storage import Store

DAY = 86_400
NOON = 20_000 * DAY + 12 * 3600


def slot(at: int, life: str = "a", hub: str = "acme", **figures: int) -> MeteredSlot:
    return MeteredSlot(hub, at, life, **figures)


@pytest.mark.spec("ADMIN-06")
class MeteringContract:
    async def test_what_processes_counted_in_a_slot_is_added_up(self, store: Store) -> None:
        first = slot(
            NOON, messages_in=3, bytes_in=30, sessions_opened=1, sessions_before=2, channels=4
        )
        await store.add_metered([first])
        await store.add_metered([slot(NOON, messages_in=2, sessions_opened=1, sessions_before=1)])
        await store.add_metered([slot(NOON, "b", sessions_before=5, channels=1, messages_out=7)])
        assert await store.read_metered("acme", NOON, NOON + 300, 300) == [
            FiguresAt(
                messages_in=5,
                bytes_in=30,
                messages_out=7,
                sessions_opened=2,
                at=NOON,
                active_sessions=9,
                active_channels=5,
            )
        ]
        total = CountedFigures(messages_in=5, bytes_in=30, messages_out=7, sessions_opened=2)
        assert await store.read_metered_total("acme") == total
        assert await store.read_metered_total("other") == CountedFigures()
        assert await store.read_metered("other", 0, NOON + 300, 300) == []

    async def test_steps_join_slots_and_show_the_most_that_was_active(self, store: Store) -> None:
        await store.add_metered(
            [
                slot(NOON, messages_in=1, sessions_before=3, hubs=2),
                slot(NOON + 300, messages_in=2, sessions_before=1, hubs=1),
                slot(NOON + 3600, messages_in=4),
            ]
        )
        found = await store.read_metered("acme", NOON, NOON + 3601, 3600)
        assert [(each.at, each.messages_in) for each in found] == [(NOON, 3), (NOON + 3600, 4)]
        assert (found[0].active_sessions, found[0].active_hubs) == (3, 2)

    async def test_hours_of_the_day_are_those_of_all_days(self, store: Store) -> None:
        await store.add_metered(
            [
                slot(at, sessions_opened=2, sessions_ended=1, session_us=10)
                for at in (NOON - DAY, NOON + 600, NOON + 3600)
            ]
        )
        assert await store.read_metered_hours("acme", NOON - DAY, NOON + 7200) == [
            HourOfDay(12, 4, 2, 20),
            HourOfDay(13, 2, 1, 10),
        ]

    async def test_old_slots_go_and_totals_stay(self, store: Store) -> None:
        await store.add_metered([slot(NOON + 300 * n, messages_in=1) for n in range(10)])
        assert await store.delete_metered_before(NOON + 1500) == 5
        assert await store.delete_metered_before(NOON + 1500) == 0
        found = await store.read_metered("acme", 0, NOON + DAY, 300)
        assert [each.at for each in found] == [NOON + 300 * n for n in range(5, 10)]
        assert (await store.read_metered_total("acme")).messages_in == 10

    async def test_a_deleted_hub_leaves_no_counters(self, store: Store) -> None:
        await store.add_metered([slot(NOON, messages_in=1), slot(NOON, hub="*", messages_in=1)])
        await store.delete_hub("acme")
        assert await store.read_metered_total("acme") == CountedFigures()
        assert await store.read_metered("acme", 0, NOON + 300, 300) == []
        assert (await store.read_metered_total("*")).messages_in == 1
