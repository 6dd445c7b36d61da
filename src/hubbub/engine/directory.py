"""The directory of hubs: their settings, kept in memory and changed through the store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from hubbub.domain.commands.records import binding_of
from hubbub.domain.errors import HubNotFound, HubRestoring, Internal
from hubbub.domain.names import check_name
from hubbub.domain.rules import (
    HUB_ITSELF,
    SECTIONS,
    Binding,
    HubConfiguration,
    HubSettings,
    trusting,
)
from hubbub.domain.setting import Setting
from hubbub.domain.stored_settings import decode_setting, encode_setting
from hubbub.engine.access.revocations import Revocations
from hubbub.ports.bus import Bus
from hubbub.ports.storage.administration import AuditEntry
from hubbub.ports.storage.commands import CommandStore
from hubbub.ports.storage.settings import SettingsEntry, SettingsStore

_SECTIONS = {section.kind: section for section in SECTIONS}
_DECLARED = "declared"
"""The entry of a hub that names what the configuration file declared of it."""

_PAGE = 500
"""Channels with an owner that are read at once."""

ConfigurationOf = Callable[[str], HubConfiguration]
"""The current settings of a hub. Raises `HubNotFound`."""


class DirectoryStore(SettingsStore, CommandStore, Protocol):
    """What a directory reads and writes."""


class Directory:
    """All hubs that are known, as snapshots that answer without I/O."""

    def __init__(
        self,
        store: DirectoryStore,
        bus: Bus,
        dynamic: Callable[[str], HubConfiguration] | None,
        revocations: Revocations | None = None,
    ) -> None:
        """`dynamic` makes the settings of a hub that comes into being by use; None forbids it."""
        self._revocations = revocations
        self._store = store
        self._bus = bus
        self._dynamic = dynamic
        self._hubs: dict[str, HubConfiguration] = {}
        self._bindings: dict[str, dict[str, Binding]] = {}
        """By hub and channel."""
        self._suspended: set[str] = set()
        self._replaced = 0
        """How often a hub came back from being suspended."""

    def get(self, hub: str) -> HubConfiguration:
        """The settings of a hub. Raises `HubNotFound`, and `HubRestoring` while it is suspended."""
        known = self._hubs.get(hub)
        if known is not None:
            return known
        check_name(hub, "hub")
        if hub in self._suspended:
            raise HubRestoring(f"hub {hub!r} is being restored from a backup; try again soon")
        if self._dynamic is None:
            raise HubNotFound(
                f"there is no hub {hub!r}; declare it under `hubs` in the configuration, or "
                "allow hubs to come into being by use (engine.allowDynamicHubs)"
            )
        return self._dynamic(hub)

    def settings_of(self, hub: str) -> HubSettings:
        """Those of a hub without any where there is no such hub. Raises `InvalidName`."""
        try:
            return self.get(hub).settings
        except HubNotFound:
            return HubSettings()

    def __contains__(self, hub: object) -> bool:
        """Whether somebody declared or changed it; others come into being by use."""
        return hub in self._hubs

    def names(self) -> list[str]:
        return sorted(self._hubs)

    async def load(self) -> None:
        """Read everything that is stored, at start and as a safety net from time to time; again,
        where a hub was replaced meanwhile."""
        replaced = -1
        while replaced != self._replaced:
            replaced = self._replaced
            await self._load()

    async def _load(self) -> None:
        entries: dict[str, list[SettingsEntry]] = {}
        for entry in await self._store.read_settings():
            entries.setdefault(entry.hub, []).append(entry)
        if self._revocations is not None:
            await self._revocations.load()
        keys = await self._topic_keys(None)
        self._bindings = await self._read_bindings()
        self._hubs = {
            hub: _assemble(hub, rows, keys.get(hub, {}), self._bindings.setdefault(hub, {}))
            for hub, rows in entries.items()
            if hub not in self._suspended
        }

    async def refresh(self) -> None:
        """Read everything again, and apply what is different."""
        before = self._hubs
        await self.load()
        for hub in before.keys() | self._hubs.keys():
            if before.get(hub) != self._hubs.get(hub):
                await self._bus.announce_hub_change(hub)

    async def reload(self, hub: str, channel: str | None = None) -> None:
        """With a channel: only what its owner decided about it."""
        if channel is not None:
            await self._reload_binding(hub, channel)
            return
        read = await self._read(hub)
        if hub not in self._suspended:
            self._take(hub, *read)

    async def _read(self, hub: str) -> tuple[list[SettingsEntry], Mapping[str, bytes]]:
        """The settings, none where the hub has none of its own, and the keys of topics."""
        if self._revocations is not None:
            await self._revocations.load(hub)
        rows = await self._store.read_settings(hub)
        keys = await self._topic_keys(hub) if rows else {}
        return rows, keys.get(hub, {})

    def _take(self, hub: str, rows: list[SettingsEntry], keys: Mapping[str, bytes]) -> None:
        if rows:
            bindings = self._bindings.setdefault(hub, {})
            self._hubs[hub] = _assemble(hub, rows, keys, bindings)
        else:
            self._hubs.pop(hub, None)
            self._bindings.pop(hub, None)

    def suspend(self, hub: str) -> None:
        """From now on the hub is not there, for everyone on this node who is told so by
        `Bus.announce_hub_change`, until `resume`."""
        self._suspended.add(hub)
        self._hubs.pop(hub, None)

    async def resume(self, hub: str) -> None:
        """The hub is there again, as the store has it now."""
        found: dict[str, Binding] = {}
        after = (hub, "")
        while page := await self._store.list_channel_records(after, _PAGE):
            of_hub = [record for name, record in page if name == hub]
            found.update((record.channel, binding_of(record, hub)) for record in of_hub)
            if len(of_hub) < _PAGE:
                break
            after = (hub, of_hub[-1].channel)
        read = await self._read(hub)
        # At once, so that nobody finds neither.
        self._bindings[hub] = found
        self._suspended.discard(hub)
        self._replaced += 1
        self._take(hub, *read)

    async def _reload_binding(self, hub: str, channel: str) -> None:
        """The other channels, of which there may be very many, stay as they are."""
        record = await self._store.read_channel_record(hub, channel)
        bindings = self._bindings.setdefault(hub, {})
        if record is None:
            bindings.pop(channel, None)
        else:
            bindings[channel] = binding_of(record, hub)
        if hub in self._hubs:  # a new snapshot, so that what was derived from the old one goes
            self._hubs[hub] = msgspec.structs.replace(self._hubs[hub], bindings=bindings)

    async def binding_changed(self, hub: str, channel: str) -> None:
        """What the owner of a channel decided was stored: have it take effect everywhere."""
        await self.reload(hub, channel)
        await self._bus.announce_channel_change(hub, channel)

    async def _read_bindings(self) -> dict[str, dict[str, Binding]]:
        found: dict[str, dict[str, Binding]] = {}
        after = ("", "")
        while page := await self._store.list_channel_records(after, _PAGE):
            for hub, record in page:
                found.setdefault(hub, {})[record.channel] = binding_of(record, hub)
            after = page[-1][0], page[-1][1].channel
        return found

    async def _topic_keys(self, hub: str | None) -> dict[str, dict[str, bytes]]:
        found: dict[str, dict[str, bytes]] = {}
        for of_hub, channel, key_hash in await self._store.read_topic_keys(hub):
            found.setdefault(of_hub, {})[channel] = key_hash
        return found

    def is_stored(self, hub: str) -> bool:
        """Whether the hub has settings of its own, rather than those of any dynamic hub."""
        return hub in self._hubs

    async def put(
        self,
        hub: str,
        kind: str,
        name: str,
        value: Setting | str,
        version: int | None = None,
        audit: AuditEntry | None = None,
    ) -> int:
        """Change one setting everywhere; answers its new version. With `version`, raises
        `VersionMismatch` if somebody else changed it since."""
        entry = SettingsEntry(kind, check_name(hub, "hub"), name, encode_setting(value))
        expected = None if version is None else {name: version}
        (saved,) = await self._store.put_settings([entry], expected, audit)
        await asyncio.shield(self.changed(hub))
        return saved.version

    async def settle(self, hub: str) -> None:
        """Give a dynamic hub settings of its own, the same as it had, so that a change of one of
        them leaves the others as they are. Raises `HubNotFound`."""
        configuration = self.get(hub)
        if not self.is_stored(hub):
            await self._store.put_settings(_entries_of(configuration))
            await self.reload(hub)

    async def delete(
        self,
        hub: str,
        kind: str,
        name: str,
        version: int | None = None,
        audit: AuditEntry | None = None,
    ) -> bool:
        """Whether it was there. With `version`, raises `VersionMismatch`."""
        found = await self._store.delete_settings(kind, hub, name, version, audit)
        if found:
            await asyncio.shield(self.changed(hub))
        return found

    async def delete_hub(self, hub: str, audit: AuditEntry | None = None) -> bool:
        """Drop a hub with all that it holds. Whether there was anything."""
        found = await self._store.delete_hub(hub, audit)
        await asyncio.shield(self.changed(hub))
        return found

    async def declare(self, configurations: Sequence[HubConfiguration]) -> None:
        """Make the store say what the configuration file says. What the file said before and no
        longer says goes; what was set in other ways stays."""
        stored = {_key(entry): entry for entry in await self._store.read_settings()}
        wanted = {_key(e): e for hub in configurations for e in _declaration(trusting(hub))}
        for row in stored.values():
            for key in _declared_by(row):
                if key not in wanted and key in stored:
                    await self._store.delete_settings(*key)
        changed = [
            entry
            for key, entry in wanted.items()
            if key not in stored or stored[key].value != entry.value
        ]
        if changed:
            await self._store.put_settings(changed)
        await self.load()

    async def changed(self, hub: str) -> None:
        """Something of this hub was stored: have it take effect everywhere."""
        await self.reload(hub)
        await self._bus.announce_hub_change(hub)


def _key(entry: SettingsEntry) -> tuple[str, str, str]:
    return entry.kind, entry.hub, entry.name


def _declaration(configuration: HubConfiguration) -> list[SettingsEntry]:
    """The entries of a hub in the file, and one that remembers which these were."""
    entries = _entries_of(configuration)
    names = msgspec.json.encode([(entry.kind, entry.name) for entry in entries])
    return [*entries, SettingsEntry(_DECLARED, configuration.hub, "", names)]


def _declared_by(row: SettingsEntry) -> list[tuple[str, str, str]]:
    """What the file declared when this was written, this row included."""
    if row.kind != _DECLARED:
        return []
    names = msgspec.json.decode(row.value, type=list[tuple[str, str]])
    return [(kind, row.hub, name) for kind, name in (*names, (_DECLARED, ""))]


def _assemble(
    hub: str,
    rows: Sequence[SettingsEntry],
    topic_keys: Mapping[str, bytes],
    bindings: Mapping[str, Binding],
) -> HubConfiguration:
    found: dict[str, dict[str, Any]] = {section.attribute: {} for section in SECTIONS}
    for row in rows:
        section = _SECTIONS.get(row.kind)
        if section is None:
            continue
        try:
            found[section.attribute][row.name] = decode_setting(row.value, section.type)
        except msgspec.MsgspecError as error:
            raise Internal(
                f"the stored setting {row.kind} {row.name!r} of hub {hub!r} cannot be read: {error}"
            ) from error
    settings = found.pop(HUB_ITSELF.attribute).get("", HubSettings())
    return HubConfiguration(
        hub=hub, settings=settings, topic_keys=topic_keys, bindings=bindings, **found
    )


def _entries_of(configuration: HubConfiguration) -> list[SettingsEntry]:
    return [
        SettingsEntry(section.kind, configuration.hub, name, encode_setting(value))
        for section in SECTIONS
        for name, value in section.of(configuration).items()
    ]
