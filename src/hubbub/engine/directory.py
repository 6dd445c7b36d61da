"""The directory of hubs: all settings in memory, changed through the store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from hubbub.domain.asking import NodeRequest
from hubbub.domain.audit import AuditEntry
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
from hubbub.engine.large_work import HubLocks
from hubbub.engine.read_order import Read, ReadOrder
from hubbub.engine.rooms import NodeHandler
from hubbub.ports.bus import Bus, HubChanged
from hubbub.ports.storage.commands import CommandStore
from hubbub.ports.storage.settings import SettingsEntry, SettingsStore

_SECTIONS = {section.kind: section for section in SECTIONS}
_DECLARED = "declared"
"""The entry that lists what the configuration file declared for a hub."""

HUB_ITSELF_NAME = ""
"""The name of the entry with the hub's own settings."""

_PAGE = 500
"""Channels with an owner that are read at once."""

_ROWS_IN_A_TURN = 64
"""Settings compared and decoded in one turn of the event loop, in at most half a millisecond."""

ConfigurationOf = Callable[[str], HubConfiguration]
"""The current settings of a hub. Raises `HubNotFound`."""


class DirectoryStore(SettingsStore, CommandStore, Protocol):
    """The part of the store that a directory uses."""


class StoredSettings(msgspec.Struct):
    """A hub's settings as stored, by kind and name, and their decoded form. Both are immutable."""

    raw: dict[tuple[str, str], bytes] = msgspec.field(default_factory=dict)
    values: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)


_NOTHING: Final = StoredSettings()


class Directory:
    """The configuration of all known hubs, as snapshots that need no I/O."""

    def __init__(
        self,
        store: DirectoryStore,
        bus: Bus,
        dynamic: bool = False,
        revocations: Revocations | None = None,
        template: Callable[[str], HubConfiguration] = HubConfiguration,
    ) -> None:
        """`dynamic`: hubs come into being by use, with the settings that `template` makes."""
        self._revocations = revocations
        self._store = store
        self._bus = bus
        self._dynamic = dynamic
        self.template = template
        self._hubs: dict[str, HubConfiguration] = {}
        self._stored: dict[str, StoredSettings] = {}
        """The stored settings behind `_hubs`, by hub."""
        self._decoding = HubLocks()
        self._bindings: dict[str, dict[str, Binding]] = {}
        """By hub and channel."""
        self._suspended: set[str] = set()
        self._order = ReadOrder()
        """Orders reads of settings (key: the hub) and of bindings (hub and channel; "" for all)."""
        self.node_requests: Mapping[type[NodeRequest[Any]], NodeHandler] = {
            HubChanged: self._read_change
        }
        """See `Room.node_requests`."""

    def get(self, hub: str) -> HubConfiguration:
        """The settings of a hub. Raises `HubNotFound`, and `HubRestoring` while it is suspended."""
        known = self._hubs.get(hub)
        if known is not None:
            return known
        check_name(hub, "hub")
        if hub in self._suspended:
            raise HubRestoring(f"hub {hub!r} is being restored from a backup; try again soon")
        if not self._dynamic:
            raise HubNotFound(
                f"there is no hub {hub!r}; declare it under `hubs` in the configuration, create it "
                "with `hubbub hubs create`, or allow hubs to come into being by use "
                "(engine.allowDynamicHubs)"
            )
        return self.template(hub)

    def settings_of(self, hub: str) -> HubSettings:
        """The settings of a hub, or default ones if the hub does not exist. Raises
        `InvalidName`."""
        try:
            return self.get(hub).settings
        except HubNotFound:
            return HubSettings()

    def __contains__(self, hub: object) -> bool:
        """Whether the hub was declared or configured, rather than created at its first use."""
        return hub in self._hubs

    def names(self) -> list[str]:
        return sorted(self._hubs)

    async def load(self) -> None:
        """Reads all settings; called at the start, and periodically as a safety net."""
        with self._order.read() as read:
            entries: dict[str, list[SettingsEntry]] = {}
            for entry in await self._store.read_settings():
                entries.setdefault(entry.hub, []).append(entry)
            if self._revocations is not None:
                await self._revocations.load()
            keys = await self._topic_keys(None)
            found = await self._read_bindings()
            stored = {hub: await self.decode(hub, rows) for hub, rows in entries.items()}
            for hub in found.keys() | self._bindings.keys():
                self._take_bindings(read, hub, found.get(hub, {}))
            for hub in stored.keys() | self._hubs.keys():
                if hub not in self._suspended:
                    self._take(read, hub, stored.get(hub, _NOTHING), keys.get(hub, {}))
            read.applied()

    async def refresh(self) -> None:
        """Reads all settings again and applies the differences."""
        before = dict(self._hubs)
        await self.load()
        for hub in before.keys() | self._hubs.keys():
            if before.get(hub) != self._hubs.get(hub):
                await self._bus.broadcast(HubChanged(hub))

    async def _read_change(self, _: str, changed: HubChanged) -> None:
        await self.reload(changed.hub, changed.channel)

    async def reload(self, hub: str, channel: str | None = None) -> None:
        """Reads a hub's settings again; with a channel, only the binding of that channel."""
        if channel is not None:
            await self._reload_binding(hub, channel)
            return
        with self._order.read() as read:
            found = await self._read(hub)
            if hub not in self._suspended:
                self._take(read, hub, *found)

    async def _read(self, hub: str) -> tuple[StoredSettings, Mapping[str, bytes]]:
        """A hub's settings, empty if it has none of its own, and the keys of its topics."""
        if self._revocations is not None:
            await self._revocations.load(hub)
        rows = await self._store.read_settings(hub)
        keys = await self._topic_keys(hub) if rows else {}
        return await self.decode(hub, rows), keys.get(hub, {})

    async def decode(self, hub: str, rows: Sequence[SettingsEntry]) -> StoredSettings:
        """Decodes only the settings that changed, in slices: a hub may have ten thousand settings
        of each kind, and each change reads them all. Raises `Internal` if one cannot be decoded."""
        async with self._decoding.of(hub):
            known = self._stored.get(hub, _NOTHING)
            found = StoredSettings()
            for number, row in enumerate(rows, 1):
                key = row.kind, row.name
                same = known.raw.get(key) == row.value
                found.raw[key] = row.value
                if row.kind in _SECTIONS:
                    value = known.values[row.kind][row.name] if same else _decoded(row)
                    found.values.setdefault(row.kind, {})[row.name] = value
                if number % _ROWS_IN_A_TURN == 0:
                    await asyncio.sleep(0)
            return found

    def _take(
        self, read: Read, hub: str, stored: StoredSettings, keys: Mapping[str, bytes]
    ) -> None:
        if read.outdated(hub):
            self._renew_bindings(hub)
            return
        read.applied(hub)
        if stored.raw:
            bindings = self._bindings.setdefault(hub, {})
            self._hubs[hub] = _assemble(hub, stored, keys, bindings)
            self._stored[hub] = stored
        else:
            self._hubs.pop(hub, None)
            self._stored.pop(hub, None)
            self._bindings.pop(hub, None)

    def _take_bindings(self, read: Read, hub: str, found: dict[str, Binding]) -> None:
        """Replaces all bindings of a hub, except those that a later read has replaced."""
        known = self._bindings.get(hub, {})
        if read.outdated((hub, "")):
            return
        for channel in found.keys() | known.keys():
            if read.outdated((hub, channel)):
                found.pop(channel, None)
                if channel in known:
                    found[channel] = known[channel]
        self._bindings[hub] = found

    def suspend(self, hub: str) -> None:
        """Makes the hub unavailable on this node until `resume`, and announces it with
        `HubChanged`."""
        self._suspended.add(hub)
        self._hubs.pop(hub, None)

    async def resume(self, hub: str) -> None:
        """Makes the hub available again, with the store's current settings."""
        with self._order.read() as read:
            found: dict[str, Binding] = {}
            after = (hub, "")
            while page := await self._store.list_channel_records(after, _PAGE):
                of_hub = [record for name, record in page if name == hub]
                found.update((record.channel, binding_of(record, hub)) for record in of_hub)
                if len(of_hub) < _PAGE:
                    break
                after = (hub, of_hub[-1].channel)
            settings = await self._read(hub)
            # At once, so that nobody finds neither.
            self._take_bindings(read, hub, found)
            read.applied((hub, ""))
            self._suspended.discard(hub)
            self._take(read, hub, *settings)

    async def _reload_binding(self, hub: str, channel: str) -> None:
        """Reads one binding; the hub may have very many others, which stay unchanged."""
        with self._order.read() as read:
            record = await self._store.read_channel_record(hub, channel)
            if read.outdated((hub, channel)) or read.outdated((hub, "")):
                return
            read.applied((hub, channel))
        bindings = self._bindings.setdefault(hub, {})
        if record is None:
            bindings.pop(channel, None)
        else:
            bindings[channel] = binding_of(record, hub)
        self._renew_bindings(hub)

    def _renew_bindings(self, hub: str) -> None:
        """Creates a new snapshot, which invalidates everything derived from the old one."""
        if hub in self._hubs:
            bindings = self._bindings.setdefault(hub, {})
            self._hubs[hub] = msgspec.structs.replace(self._hubs[hub], bindings=bindings)

    async def binding_changed(self, hub: str, channel: str) -> None:
        """Applies a stored change of a channel's binding on all nodes."""
        await self._bus.broadcast(HubChanged(hub, channel))

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
        """Changes one setting on all nodes and returns its new version. With `version`, raises
        `VersionMismatch` if the setting changed since."""
        entry = SettingsEntry(kind, check_name(hub, "hub"), name, encode_setting(value))
        expected = None if version is None else {name: version}
        (saved,) = await self._store.audited(audit).put_settings([entry], expected)
        await asyncio.shield(self.changed(hub))
        return saved.version

    async def settle(self, hub: str) -> None:
        """Stores the defaults of a dynamic hub as its own settings, so that a change of one keeps
        the others. Raises `HubNotFound`."""
        configuration = self.get(hub)
        if not self.is_stored(hub):
            await self._store.put_settings(_entries_of(configuration))
            await self.reload(hub)

    async def create(self, configuration: HubConfiguration, audit: AuditEntry) -> None:
        """Stores a hub with all its settings. Raises `Conflict` if there is one."""
        entries = _entries_of(configuration)
        await self._store.audited(audit).put_settings(entries, {HUB_ITSELF_NAME: 0})
        await asyncio.shield(self.changed(configuration.hub))

    async def delete(
        self,
        hub: str,
        kind: str,
        name: str,
        version: int | None = None,
        audit: AuditEntry | None = None,
    ) -> bool:
        """Returns whether the setting existed. With `version`, raises `VersionMismatch`."""
        found = await self._store.audited(audit).delete_settings(kind, hub, name, version)
        if found:
            await asyncio.shield(self.changed(hub))
        return found

    async def delete_hub(self, hub: str, audit: AuditEntry | None = None) -> bool:
        """Deletes a hub with all its data. Returns whether anything existed."""
        found = await self._store.audited(audit).delete_hub(hub)
        await asyncio.shield(self.changed(hub))
        return found

    async def declare(self, configurations: Sequence[HubConfiguration]) -> None:
        """Makes the store match the configuration file. Settings removed from the file are deleted;
        settings made in other ways stay."""
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
        """Applies a stored change of a hub's settings on all nodes."""
        await self._bus.broadcast(HubChanged(hub))


def _key(entry: SettingsEntry) -> tuple[str, str, str]:
    return entry.kind, entry.hub, entry.name


def _declaration(configuration: HubConfiguration) -> list[SettingsEntry]:
    """The entries of a hub in the file, and the entry that lists them."""
    entries = _entries_of(configuration)
    names = msgspec.json.encode([(entry.kind, entry.name) for entry in entries])
    return [*entries, SettingsEntry(_DECLARED, configuration.hub, "", names)]


def _declared_by(row: SettingsEntry) -> list[tuple[str, str, str]]:
    """The names that the file declared when this list was written, including the list itself."""
    if row.kind != _DECLARED:
        return []
    names = msgspec.json.decode(row.value, type=list[tuple[str, str]])
    return [(kind, row.hub, name) for kind, name in (*names, (_DECLARED, ""))]


def _decoded(row: SettingsEntry) -> Any:
    try:
        return decode_setting(row.value, _SECTIONS[row.kind].type)
    except msgspec.MsgspecError as error:
        found_bad = f"the stored setting {row.kind} {row.name!r} of hub {row.hub!r} cannot be read"
        raise Internal(found_bad, f"{found_bad}: {error}") from error


def _assemble(
    hub: str,
    stored: StoredSettings,
    topic_keys: Mapping[str, bytes],
    bindings: Mapping[str, Binding],
) -> HubConfiguration:
    found = {each.attribute: stored.values.get(each.kind, {}) for each in SECTIONS}
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
