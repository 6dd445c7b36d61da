"""Settings of hubs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from hubbub.ports.storage.audited import Audited


class SettingsEntry(msgspec.Struct, frozen=True):
    """One setting. `kind` is hub, rules, namespace, channel, auth_provider or another kind of the
    engine; `value` is JSON. `version` counts the changes of this entry, from 1."""

    kind: str
    hub: str
    name: str
    value: bytes
    version: int = 0


class SettingsStore(Audited, Protocol):
    """Versioned settings; a hub and all its data."""

    async def put_settings(
        self,
        entries: Sequence[SettingsEntry],
        expected: Mapping[str, int] | None = None,
    ) -> list[SettingsEntry]:
        """Creates or replaces settings, all or none; returns them with their new versions. With
        `expected`, raises `VersionMismatch` unless each named entry (by `name`) has that version
        (0: must not exist)."""

    async def delete_settings(
        self,
        kind: str,
        hub: str,
        name: str,
        expected: int | None = None,
    ) -> bool:
        """Returns whether it existed. With `expected`, raises `VersionMismatch` unless it has that
        version. If it existed,"""

    async def read_settings(self, hub: str | None = None) -> list[SettingsEntry]:
        """All entries, or those of one hub; ordered by kind, hub, name."""

    async def read_named_settings(
        self, hub: str, kind: str, names: Sequence[str]
    ) -> list[SettingsEntry]:
        """Entries of a kind with these names, ordered by name."""

    async def read_topic_keys(self, hub: str | None = None) -> list[tuple[str, str, bytes]]:
        """Hub, channel and key hash of all topics with a key."""

    async def delete_hub(self, hub: str) -> bool:
        """Deletes all data of the hub except its audit log and revocations; returns whether there
        was any. The settings are deleted first, with the audit entry; messages may take several
        transactions. Calling it again completes an interrupted deletion."""
