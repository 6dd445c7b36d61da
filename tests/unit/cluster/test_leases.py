"""When a node may take over from others that it does not hear."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hubbub.cluster.leases import LAPSE_SECONDS, Leases
from hubbub.cluster.membership import Heartbeat, Membership
from hubbub.storage.sqlite.store import SqliteStore


class Watch:
    def __init__(self) -> None:
        self.now = 100.0
        self.deaf = False


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(tmp_path / "hubbub.db")
    await store.open()
    yield store
    await store.close()


def leases_of(store: SqliteStore, watch: Watch, *heard: str) -> Leases:
    membership = Membership("east", "i", "core")
    for node in heard:
        membership.hear(Heartbeat(node, "i", "i.1", "core", "serving"), 0.0)
    return Leases("east", store, membership, lambda: watch.deaf, lambda: watch.now)


@pytest.mark.spec("CLU-02")
async def test_a_majority_takes_over_at_once(store: SqliteStore) -> None:
    await store.count_beat("west")
    assert await leases_of(store, Watch(), "north").may_take()


@pytest.mark.spec("CLU-02")
async def test_a_node_that_hears_nobody_takes_nothing_from_those_who_live(
    store: SqliteStore,
) -> None:
    watch = Watch()
    leases = leases_of(store, watch)
    for _ in range(10):
        watch.now += 1
        await store.count_beat("west")
        assert not await leases.may_take()
    watch.now += LAPSE_SECONDS + 0.1
    assert await leases.may_take(), "the other is dead"


async def test_one_that_is_known_to_be_off_the_bus_is_not_waited_for(store: SqliteStore) -> None:
    await store.count_beat("west")
    leases = leases_of(store, Watch())
    assert not await leases.may_take()
    leases.gone("west")
    assert await leases.may_take()


async def test_one_that_left_in_good_order_is_not_waited_for(store: SqliteStore) -> None:
    await store.count_beat("west")
    await store.forget_node("west")
    assert await leases_of(store, Watch()).may_take()


async def test_a_node_that_does_not_hear_the_bus_takes_nothing(store: SqliteStore) -> None:
    watch = Watch()
    leases = leases_of(store, watch, "north")
    watch.deaf = True
    assert not await leases.may_take()
