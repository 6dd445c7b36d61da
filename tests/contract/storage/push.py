"""Devices of users, followings, and credentials for push services."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from contract.storage.records import MakeStore, opened
from hubbub.domain.permissions import Grant, Identity, Reader
from hubbub.domain.push.tokens import UNREFRESHED_MS, PushToken
from hubbub.ports.storage import Store
from hubbub.ports.storage.push import PushCredential, PushFollowing

MANY = 1000
ACTING = Reader(Identity(user_id="ann", grants=(Grant("news", subscribe=True),), issued_at=7))


def device(user: str, token: str = "t1", hub: str = "demo", registered_at: int = 50) -> PushToken:
    return PushToken(hub, user, "fcm", token, registered_at=registered_at)


def following(user: str, channel: str = "news", hub: str = "demo") -> PushFollowing:
    return PushFollowing(hub, channel, user, ACTING, 5)


@pytest.mark.spec("PUSH-01")
class PushContract:
    async def test_a_push_token_belongs_to_one_user_of_a_hub(self, store: Store) -> None:
        token = PushToken(
            "demo", "ann", "webpush", "https://push.example/1", b"\x04point", b"secret",
            vapid_key="k1", registered_at=50, expires_at=99, succeeded_at=60, failures=1,
            failing_since=55,
        )  # fmt: skip
        for _ in range(2):
            await store.save_push_token(token)
        assert await store.read_push_tokens("demo", ["ann"]) == [token]
        moved = msgspec.structs.replace(token, user_id="bob", vapid_key=None, registered_at=51)
        await store.save_push_token(moved)
        elsewhere = msgspec.structs.replace(token, hub="other")
        await store.save_push_token(elsewhere)
        assert await store.read_push_tokens("demo", ["ann"]) == []
        assert await store.read_push_tokens("demo", ["ann", "bob", "o'hara"]) == [moved]
        assert await store.read_push_tokens("demo", []) == []
        which = ("demo", "webpush", token.token)
        assert await store.delete_push_token(*which, 50) is False
        assert await store.delete_push_token(*which, 51) is True
        assert await store.delete_push_token(*which) is False
        assert await store.read_push_tokens("other", ["ann"]) == [elsewhere]

    async def test_tokens_of_many_users_come_in_order(self, store: Store) -> None:
        tokens = [device("ann", "a"), device("ann", "b"), device("bob", "c"), device("eve", "d")]
        for token in reversed(tokens):
            await store.save_push_token(token)
        assert await store.read_push_tokens("demo", ["eve", "ann"]) == [*tokens[:2], tokens[3]]

    async def test_results_are_noted_for_tokens_that_are_as_they_were(self, store: Store) -> None:
        one, two = device("ann", "one"), device("ann", "two")
        await store.save_push_token(one)
        await store.save_push_token(msgspec.structs.replace(two, registered_at=51))
        seen = [
            msgspec.structs.replace(each, succeeded_at=70, failures=3, failing_since=60)
            for each in (one, two)
        ]
        await store.note_push_results("demo", seen)
        await store.note_push_results("demo", [])
        assert await store.read_push_tokens("demo", ["ann"]) == [
            seen[0],
            msgspec.structs.replace(two, registered_at=51),
        ]

    async def test_tokens_go_when_they_expire_or_were_not_refreshed(self, store: Store) -> None:
        kept = device("ann", "kept", registered_at=100)
        expiring = msgspec.structs.replace(device("ann", "expiring"), expires_at=80)
        for token in (kept, device("ann", "old"), expiring):
            await store.save_push_token(token)
        assert await store.delete_expired(79) == 0
        assert await store.delete_expired(80) == 1
        assert await store.delete_expired(50 + UNREFRESHED_MS) == 1
        assert await store.read_push_tokens("demo", ["ann"]) == [kept]

    async def test_followings_keep_as_whom_and_are_read_by_channel_and_by_user(
        self, store: Store
    ) -> None:
        for each in (following("bob"), following("ann"), following("ann", "sports")):
            await store.save_following(each, MANY)
            await store.save_following(each, MANY)
        await store.save_following(following("ann", hub="other"), MANY)
        found = await store.read_followings("demo", "news", "", 10)
        assert found == [following("ann"), following("bob")]
        assert await store.read_followings("demo", "news", "ann", 10) == [following("bob")]
        assert await store.read_followings("demo", "news", "", 1) == [following("ann")]
        of_ann = [following("ann"), following("ann", "sports")]
        assert await store.read_followings_of("demo", ["ann", "eve"]) == of_ann
        listed = await store.list_followings("demo", ("news", "ann"), 10)
        assert listed == [following("bob"), following("ann", "sports")]
        assert await store.delete_following("demo", "news", "bob") is True
        assert await store.delete_following("demo", "news", "bob") is False
        assert await store.delete_followings_of("demo", "ann") == 2
        assert await store.list_followings("demo", ("", ""), 10) == []
        assert len(await store.read_followings("other", "news", "", 10)) == 1

    @pytest.mark.spec("SEC-01")
    async def test_a_user_follows_so_many_channels_also_when_many_are_added_at_once(
        self, store: Store
    ) -> None:
        wanted = [following("ann", f"news{number}") for number in range(6)]
        saved = await asyncio.gather(*(store.save_following(each, 2) for each in wanted))
        assert saved.count(True) == 2
        kept = await store.read_followings_of("demo", ["ann"])
        assert len(kept) == 2
        assert await store.save_following(kept[0], 2) is True
        assert await store.save_following(following("bob"), 2) is True

    async def test_credentials_are_kept_by_name_and_the_first_of_a_kind_is_made_once(
        self, store: Store
    ) -> None:
        first = PushCredential("demo", "vapid:1", b"\x00sealed", '{"a":1}', 5)
        second = PushCredential("demo", "vapid:2", b"other", "{}", 6)
        assert await store.add_first_credential(first, "vapid:") is True
        assert await store.add_first_credential(second, "vapid:") is False
        assert await store.read_push_credentials("demo") == [first]
        await store.put_push_credential(second)
        fcm = PushCredential("other", "fcm", b"account", "{}", 4)
        await store.put_push_credential(msgspec.structs.replace(fcm, sealed=b"before"))
        await store.put_push_credential(fcm)
        assert await store.read_push_credentials() == [second, first, fcm]
        assert await store.delete_push_credential("demo", "vapid:1") is True
        assert await store.delete_push_credential("demo", "vapid:1") is False
        assert await store.read_push_credentials("demo") == [second]

    async def test_nothing_is_left_of_a_hub_that_was_deleted(self, make_store: MakeStore) -> None:
        async with opened(make_store()) as store:
            await store.save_push_token(device("ann"))
            await store.save_following(following("ann"), MANY)
            await store.put_push_credential(PushCredential("demo", "fcm", b"x", "{}", 4))
            assert await store.delete_hub("demo") is True
            assert await store.read_push_tokens("demo", ["ann"]) == []
            assert await store.list_followings("demo", ("", ""), 10) == []
            assert await store.read_push_credentials("demo") == []
