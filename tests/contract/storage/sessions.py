"""Snapshots of sessions."""

from __future__ import annotations

import pytest

from contract.storage.records import (
    EPOCH,
    PARTITION,
    MakeStore,
    append,
    fill,
    message,
    opened,
)
from hubbub.ports.storage import Store
from hubbub.ports.storage.exports import Exported
from hubbub.ports.storage.messages import (
    ChannelHead,
)
from hubbub.ports.storage.sessions import SessionSnapshot


class SessionsContract:
    @pytest.mark.spec("MQTT-02")
    async def test_sessions_are_counted_and_deleted_by_the_name_of_their_session(
        self, store: Store
    ) -> None:
        names = ("mqtt:", "mqtt:u:ann", "mqtt:u:ann", "mqtt:u:Ünn", "s1", "mqt")
        rows = [
            SessionSnapshot(b"%d" % number, "demo", name, b"", 100)
            for number, name in enumerate(names)
        ]
        await store.save_sessions([*rows, SessionSnapshot(b"x", "other", "mqtt:", b"", 100)])
        assert await store.count_sessions("demo", "mqtt:") == 4
        await store.delete_sessions_named("demo", "mqtt:u:ann")
        assert await store.count_sessions("demo", "mqtt:") == 2
        assert await store.read_session(b"1", 0) is None
        assert await store.count_sessions("other", "mqtt:") == 1

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

    async def test_the_sessions_of_a_holder_last_as_long_as_they_are_held(
        self, store: Store
    ) -> None:
        held = SessionSnapshot(b"held", "demo", "s1", b"", 100, "process")
        other = SessionSnapshot(b"other", "demo", "s2", b"", 100, "another process")
        await store.save_sessions([held, other])
        for until in (150, 200):
            await store.hold_sessions("process", until)
        assert await store.read_session(b"held", 199) == held
        assert await store.read_session(b"other", 99) == other
        assert await store.read_session(b"other", 100) is None
        assert await store.delete_expired(150) == 1
        assert await store.read_session(b"held", 199) == held
        assert await store.read_session(b"held", 200) is None
        assert await store.delete_expired(200) == 1

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
