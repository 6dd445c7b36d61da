"""Channels with an owner, and subscriptions of users."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from contract.storage.records import MakeStore, opened
from hubbub.domain.commands.objects import HChannel
from hubbub.ports.storage import Store

MANY = 1000


def record(channel: str = "news", owner: str = "ann@demo", **more: Any) -> HChannel:
    values = {"participants": ("ann@demo", "bob@demo", "zoe@other"), "active": True, **more}
    return HChannel(channel, owner, **values)


@pytest.mark.spec("CMD-02")
class CommandContract:
    async def test_a_record_is_created_and_replaced_by_its_owner(self, store: Store) -> None:
        assert await store.read_channel_record("demo", "news") is None
        full = record(
            chdesc="d", priority=3, location={"lat": 1.5}, headers={"a": [None]}, host={"h": 1}
        )
        assert await store.save_channel_record("demo", full, MANY, MANY) == "created"
        assert await store.read_channel_record("demo", "news") == full
        changed = record(participants=(), active=False)
        assert await store.save_channel_record("demo", changed, MANY, MANY) == "replaced"
        taken = record(owner="bob@demo")
        assert await store.save_channel_record("demo", taken, MANY, MANY) == "owned"
        assert await store.read_channel_record("demo", "news") == changed
        assert await store.save_channel_record("other", taken, MANY, MANY) == "created"

    async def test_one_of_two_who_create_the_same_record_owns_it(self, store: Store) -> None:
        rivals = [record(owner=f"{user}@demo") for user in ("ann", "bob", "eve")]
        saved = await asyncio.gather(
            *(store.save_channel_record("demo", each, MANY, MANY) for each in rivals)
        )
        assert sorted(saved) == ["created", "owned", "owned"]

    async def test_a_hub_has_so_many_records(self, store: Store) -> None:
        assert await store.save_channel_record("demo", record("a"), 1, MANY) == "created"
        assert await store.save_channel_record("demo", record("b"), 1, MANY) == "full"
        assert (
            await store.save_channel_record("demo", record("a", active=False), 1, MANY)
            == "replaced"
        )
        assert await store.save_channel_record("other", record("b"), 1, MANY) == "created"

    @pytest.mark.spec("SEC-01")
    async def test_an_owner_has_a_share_of_the_records_also_when_many_are_made_at_once(
        self, store: Store
    ) -> None:
        wanted = [record(f"a{number}") for number in range(6)]
        saved = await asyncio.gather(
            *(store.save_channel_record("demo", each, MANY, 2) for each in wanted)
        )
        assert sorted(saved) == ["created"] * 2 + ["share"] * 4
        of_bob = record("b", owner="bob@demo")
        assert await store.save_channel_record("demo", of_bob, MANY, 2) == "created"
        await store.take_user_off_record("demo", "b", "bob")
        assert await store.save_channel_record("demo", record("b"), MANY, 2) == "share"
        assert await store.save_channel_record("demo", wanted[0], MANY, 2) == "replaced"

    async def test_records_are_listed_in_order(self, store: Store) -> None:
        for hub, channel in (("b", "x"), ("a", "z"), ("a", "y"), ("b", "w")):
            await store.save_channel_record(hub, record(channel), MANY, MANY)
        found: list[tuple[str, str]] = []
        after = ("", "")
        while page := await store.list_channel_records(after, 3):
            found += [(hub, each.channel) for hub, each in page]
            after = found[-1]
        assert found == [("a", "y"), ("a", "z"), ("b", "w"), ("b", "x")]
        some = await store.read_channel_records("a", ["z", "y", "w"])
        assert [each.channel for each in some] == ["y", "z"]
        assert await store.read_channel_records("a", []) == []

    @pytest.mark.spec("CMD-03")
    async def test_a_user_subscribes_once(self, store: Store) -> None:
        for channel, user in (("b", "ann"), ("a", "ann"), ("a", "bob")):
            assert await store.add_user_subscription("demo", channel, user) is True
        assert await store.add_user_subscription("demo", "a", "ann") is False
        assert await store.read_user_subscriptions("demo", "ann") == ["a", "b"]
        assert await store.read_subscribed_users("demo", "a") == ["ann", "bob"]
        assert await store.read_user_subscriptions("other", "ann") == []
        assert await store.delete_user_subscription("demo", "a", "ann") is True
        assert await store.delete_user_subscription("demo", "a", "ann") is False
        assert await store.delete_user_subscriptions_of("demo", "ann") == 1
        assert await store.read_subscribed_users("demo", "a") == ["bob"]

    async def test_who_takes_part_no_longer_is_not_subscribed_any_more(self, store: Store) -> None:
        for user in ("ann", "bob", "zoe"):
            await store.add_user_subscription("demo", "news", user)
        await store.add_user_subscription("demo", "else", "bob")
        kept = record(participants=("ann@demo", "zoe@other"), active=False)
        await store.save_channel_record("demo", kept, MANY, MANY)
        assert await store.read_subscribed_users("demo", "news") == ["ann"]
        assert await store.read_subscribed_users("demo", "else") == ["bob"]
        taken = msgspec.structs.replace(kept, owner="eve@demo", participants=())
        await store.save_channel_record("demo", taken, MANY, MANY)
        assert await store.read_subscribed_users("demo", "news") == ["ann"]

    async def test_a_user_is_taken_off_records(self, store: Store) -> None:
        """What the user owned belongs to the hub, until somebody else is given it."""
        kept = record(participants=("ann@demo", "bob@demo", "ann@other"))
        await store.save_channel_record("demo", kept, MANY, MANY)
        for user in ("ann", "bob"):
            await store.add_user_subscription("demo", "news", user)
        assert await store.take_user_off_record("demo", "news", "ann") == {"owner", "participant"}
        left = msgspec.structs.replace(
            kept, owner="hnode@demo", participants=("bob@demo", "ann@other")
        )
        assert await store.read_channel_record("demo", "news") == left
        assert await store.read_subscribed_users("demo", "news") == ["bob"]
        assert await store.take_user_off_record("demo", "news", "ann") == frozenset()
        assert await store.take_user_off_record("demo", "nowhere", "ann") == frozenset()
        assert await store.take_user_off_record("demo", "news", "bob") == {"participant"}
        given = msgspec.structs.replace(kept, owner="bob@demo")
        assert await store.save_channel_record("demo", given, MANY, MANY) == "replaced"
        assert await store.save_channel_record("demo", kept, MANY, MANY) == "owned"

    async def test_records_go_with_their_hub_and_outlive_a_restart(
        self, make_store: MakeStore
    ) -> None:
        async with opened(make_store()) as store:
            for hub in ("demo", "other"):
                await store.save_channel_record(hub, record(), MANY, MANY)
                await store.add_user_subscription(hub, "news", "ann")
        async with opened(make_store()) as store:
            assert await store.delete_hub("demo")
            assert await store.read_channel_record("demo", "news") is None
            assert await store.read_user_subscriptions("demo", "ann") == []
            assert await store.read_channel_record("other", "news") == record()
            assert await store.read_user_subscriptions("other", "ann") == ["news"]
