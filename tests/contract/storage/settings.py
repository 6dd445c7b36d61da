"""Settings of hubs.."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from hubbub.domain.errors import Conflict, VersionMismatch
from hubbub.domain.rules import Rules
from hubbub.domain.stored_settings import decode_setting
from hubbub.ports.storage import Store
from hubbub.ports.storage.settings import SettingsEntry
from hubbub.storage.sql.schema import Migration

RULES_OF_BEFORE = {"none": b"{}", "some": b'{"public":true}', "kept": b'{"live_history":true}'}
"""As stored when what rules omitted about live history meant that there was none."""


def before_live_history(migrations: Sequence[Migration]) -> int:
    """The schema version in which they are stored."""
    return next(m.version - 1 for m in migrations if any("live_history" in s for s in m.statements))


async def live_histories(store: Store) -> dict[str, bool | None]:
    """What the stored rules of a hub say about it."""
    rows = await store.read_settings("acme")
    return {row.name: decode_setting(row.value, Rules).live_history for row in rows}


class SettingsContract:
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
        assert await store.read_named_settings("b", "rules", ["x", "y"]) == everything[2:]
        assert await store.read_named_settings("b", "hub", ["x"]) == []

    async def test_settings_are_found_whatever_characters_their_names_have(
        self, store: Store
    ) -> None:
        """Names that are asked for together may be those of strangers."""
        odd = ["a\0b", "\x01", "\x010", "'; --", "\U0010ffff"]
        await store.put_settings([SettingsEntry("rules", "b", name, b"1") for name in odd])
        found = await store.read_named_settings("b", "rules", [*odd, "a", "\0"])
        assert {entry.name for entry in found} == set(odd)

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
