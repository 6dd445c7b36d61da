"""Settings of hubs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from hubbub.ports.storage.administration import AuditEntry


class SettingsEntry(msgspec.Struct, frozen=True):
    """One setting. `kind` is hub, rules, namespace, channel, auth_provider or another word of
    the engine's; `value` is JSON. `version` counts the changes of this entry, from 1."""

    kind: str
    hub: str
    name: str
    value: bytes
    version: int = 0


class SettingsStore(Protocol):
    """Settings with versions; a hub and all that belongs to it."""

    async def put_settings(
        self,
        entries: Sequence[SettingsEntry],
        expected: Mapping[str, int] | None = None,
        audit: AuditEntry | None = None,
    ) -> list[SettingsEntry]:
        """Create or replace settings, all or none; answers them with their new versions. With
        `expected`, raises `VersionMismatch` unless each named entry (by `name`) has that version
        now (0: must not exist). `audit` is written in the same transaction."""

    async def delete_settings(
        self,
        kind: str,
        hub: str,
        name: str,
        expected: int | None = None,
        audit: AuditEntry | None = None,
    ) -> bool:
        """Whether it was there. With `expected`, raises `VersionMismatch` unless it has that
        version now. `audit` is written in the same transaction, if it was there."""

    async def read_settings(self, hub: str | None = None) -> list[SettingsEntry]:
        """All entries, or those of one hub; ordered by kind, hub, name."""

    async def read_named_settings(
        self, hub: str, kind: str, names: Sequence[str]
    ) -> list[SettingsEntry]:
        """Those of a kind that have one of the names, ordered by name."""

    async def read_topic_keys(self, hub: str | None = None) -> list[tuple[str, str, bytes]]:
        """Hub, channel and hash of the key, of all topics that have one."""

    async def delete_hub(self, hub: str, audit: AuditEntry | None = None) -> bool:
        """Drop everything that belongs to the hub, except its audit and its revocations; answers
        whether there was anything. The settings go first, with the audit; messages may take
        several transactions. Calling it again completes a deletion that was interrupted."""
