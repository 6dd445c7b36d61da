"""Changes a setting: checks conditions, validates, writes the audit entry, and takes effect on all
nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Generic, TypeVar, cast
from weakref import WeakValueDictionary

import msgspec

from hubbub.domain.callbacks import Reach
from hubbub.domain.communication.settings import AdapterSettings, CallbackSettings
from hubbub.domain.errors import (
    BadRequest,
    Conflict,
    NotFound,
    NotPermitted,
    QuotaExceeded,
    SecretNeeded,
    VersionMismatch,
)
from hubbub.domain.mercure.keys import MercureKey
from hubbub.domain.names import check_name
from hubbub.domain.rules import (
    AuthProvider,
    HubConfiguration,
    RpcRoute,
    Section,
    TrustedIssuer,
)
from hubbub.domain.setting import Setting
from hubbub.domain.setting_checks import Problem, problems_of
from hubbub.domain.stored_settings import decode_setting
from hubbub.engine.administration.actors import Actor
from hubbub.engine.administration.audit import AuditLog
from hubbub.engine.administration.versions import ANY_VERSION, Condition, Versioned
from hubbub.engine.directory import Directory
from hubbub.ports.storage.settings import SettingsEntry, SettingsStore

HIDDEN = "(hidden)"
"""Replaces a secret in responses; sent back, it keeps the secret unchanged."""
MOST_ENTRIES = 10_000
"""Maximum number of settings of one kind per hub."""
_ATTEMPTS = 10

S = TypeVar("S", bound=Setting | str)
E = TypeVar("E", bound=AuthProvider | RpcRoute | CallbackSettings)
R = TypeVar("R", bound=AuthProvider | RpcRoute | TrustedIssuer)
V = TypeVar("V")


class SettingsEditor:
    """Directory, store, audit log and locks for changes of settings."""

    def __init__(self, directory: Directory, store: SettingsStore, audit: AuditLog) -> None:
        self.directory = directory
        self.store = store
        self.audit = audit
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def lock(self, hub: str) -> asyncio.Lock:
        """Serialises changes of one hub, so that references between its settings stay valid."""
        lock = self._locks.get(hub)
        if lock is None:
            lock = self._locks[hub] = asyncio.Lock()
        return lock


class NamedSettings(Generic[S]):
    """The settings of one kind, by hub and name, with their versions. A value and its version
    always come from the store together; responses hide secrets. Kinds with additional rules
    override `_check` and `_prepare`."""

    def __init__(self, editor: SettingsEditor, section: Section, of: type[S]) -> None:
        self._editor = editor
        self._directory = editor.directory
        self._section = section
        self._of = of

    async def get(self, hub: str, name: str) -> Versioned[S]:
        """Raises `HubNotFound`, `NotFound`."""
        found = await self.find(hub, name)
        if found is None:
            raise self._missing(hub, name)
        return _visible(found)

    async def all(self, hub: str) -> list[Versioned[S]]:
        """Returns all settings of the kind, ordered by name. Raises `HubNotFound`."""
        return [_visible(each) for each in await self._read(hub)]

    async def put(
        self, actor: Actor, hub: str, name: str, value: S, condition: Condition = ANY_VERSION
    ) -> Versioned[S]:
        """Creates or replaces a setting of an existing hub. Raises `BadRequest`, `HubNotFound`,
        `VersionMismatch`, and the errors of the kind's `_check` and `_prepare`."""
        check_name(name, self._section.words)
        await self._check(hub, name, value)

        def change(before: S | None) -> S:
            return self._prepare(actor, hub, value, before)

        return _visible(await self._change(actor, hub, name, change, condition))

    async def delete(
        self, actor: Actor, hub: str, name: str, condition: Condition = ANY_VERSION
    ) -> None:
        """Raises `NotFound`, `VersionMismatch`, and `Conflict`, which names the settings that refer
        to this one."""

        async def delete() -> None:
            known = await self.find(hub, name)
            if known is None:
                raise self._missing(hub, name)
            condition.check(known.version)
            self._refuse_used(hub, name)
            kind = self._section.kind
            note = self._editor.audit.entry(
                actor, f"{kind}.delete", hub, name, hide_secrets(known.value)
            )
            await self._directory.delete(hub, kind, name, known.version, note)

        async with self._editor.lock(hub):
            await self._directory.settle(hub)
            await _repeated(delete, condition)

    async def _check(self, hub: str, name: str, value: S) -> None:
        """Validates the value before the hub is locked. Raises `BadRequest`."""
        refuse(problems_of(value))

    def _prepare(self, actor: Actor, hub: str, value: S, before: S | None) -> S:
        """Returns the value to store in place of `before`; called while the hub is locked."""
        return value

    async def find(self, hub: str, name: str) -> Versioned[S] | None:
        """The setting with its secrets. Raises `HubNotFound`."""
        return (await self.named(hub, [name])).get(name)

    async def named(self, hub: str, names: Sequence[str]) -> dict[str, Versioned[S]]:
        """The settings with these names that exist, with their secrets. Raises `HubNotFound`."""
        section = self._section.of(self._directory.get(hub))
        if not self._directory.is_stored(hub):
            known = [name for name in names if name in section]
            return {name: Versioned(name, cast(S, section[name]), 0) for name in known}
        # From the store: another node may have set it a moment ago.
        rows = await self._editor.store.read_named_settings(hub, self._section.kind, names)
        return {entry.name: self._versioned(entry) for entry in rows}

    async def _read(self, hub: str) -> list[Versioned[S]]:
        configuration = self._directory.get(hub)
        if not self._directory.is_stored(hub):
            section = self._section.of(configuration)
            return [Versioned(name, cast(S, section[name]), 0) for name in sorted(section)]
        rows = await self._editor.store.read_settings(hub)
        values = (await self._directory.decode(hub, rows)).values
        return [
            Versioned(entry.name, cast(S, values[entry.kind][entry.name]), entry.version)
            for entry in rows
            if entry.kind == self._section.kind
        ]

    def _versioned(self, entry: SettingsEntry) -> Versioned[S]:
        return Versioned(entry.name, decode_setting(entry.value, self._of), entry.version)

    async def _change(
        self,
        actor: Actor,
        hub: str,
        name: str,
        change: Callable[[S | None], S],
        condition: Condition,
    ) -> Versioned[S]:
        """Replaces a setting of an existing hub by the result of `change`. Writing an equal value
        changes nothing. Raises `HubNotFound`, `VersionMismatch`, and the errors of `change`."""
        async with self._editor.lock(hub):
            await self._directory.settle(hub)
            return await self.change_locked(actor, hub, name, change, condition)

    async def change_locked(
        self,
        actor: Actor,
        hub: str,
        name: str,
        change: Callable[[S | None], S],
        condition: Condition,
    ) -> Versioned[S]:
        """Like `_change`, for a caller that holds the lock and may be creating the hub."""

        async def put() -> Versioned[S]:
            known = await self.find(hub, name) if self._directory.is_stored(hub) else None
            version = 0 if known is None else known.version
            condition.check(version)
            before = None if known is None else known.value
            if known is None:
                self._check_count(hub)
            after = change(before)
            if known is not None and after == before:
                return Versioned(name, after, version)
            kind = self._section.kind
            note = self._editor.audit.entry(
                actor, f"{kind}.put", hub, name, hide_secrets(before), hide_secrets(after)
            )
            saved = await self._directory.put(hub, kind, name, after, version, note)
            return Versioned(name, after, saved, created=not version)

        return await _repeated(put, condition)

    def _check_count(self, hub: str) -> None:
        """Raises `QuotaExceeded`. Settings of channels count against the storage quota; others do
        not, so that they can be used to repair a hub that exceeds its quota."""
        section = self._section
        if section.kind == "channel" or not self._directory.is_stored(hub):
            return
        if len(section.of(self._directory.get(hub))) >= MOST_ENTRIES:
            raise QuotaExceeded(
                f"hub {hub!r} has {MOST_ENTRIES} settings of the kind {section.words!r}, the most; "
                "delete those that nobody uses"
            )

    def _missing(self, hub: str, name: str) -> NotFound:
        return NotFound(f"hub {hub!r} has no {self._section.words} {name!r}")

    def _refuse_used(self, hub: str, name: str) -> None:
        references = self._directory.get(hub).references()
        users = [
            each.user for each in references if each.section == self._section and each.name == name
        ]
        if users:
            more = f" and {len(users) - 10} more" if len(users) > 10 else ""
            raise Conflict(
                f"the {self._section.words} {name!r} is in use: by {', '.join(users[:10])}{more}"
            )


async def _repeated(change: Callable[[], Awaitable[V]], condition: Condition) -> V:
    """Retries after a concurrent change by another node, if the caller gave no condition."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return await change()
        except VersionMismatch:
            if condition.is_given:
                raise
    return await change()


def _visible(found: Versioned[S]) -> Versioned[S]:
    return found.map(hide_secrets)


def refuse(problems: Iterable[Problem]) -> None:
    """Raises `BadRequest` that lists all problems."""
    found = [f"`{key}` {problem}" for key, problem in problems]
    if found:
        raise BadRequest("; ".join(found[:10]))


def need_rules(configuration: HubConfiguration, name: str | None) -> None:
    """Raises `Conflict` if the hub has no rules with this name."""
    if name is not None and name not in configuration.rules:
        raise Conflict(f"hub {configuration.hub!r} has no rules {name!r}; create them first")


def kept_headers(value: E, before: E | None) -> dict[str, str]:
    """The headers of an endpoint to store: `(hidden)` is replaced by the previous value. Raises
    `SecretNeeded` if that was set for another URL, or never."""
    headers = dict(value.headers)
    for header, text in headers.items():
        if text == HIDDEN:
            if before is None or header not in before.headers:
                raise SecretNeeded(f"the header {header!r} has no value yet; give it")
            if before.url != value.url:
                raise SecretNeeded(
                    f"the value of the header {header!r} was given for another URL; give it again"
                )
            headers[header] = before.headers[header]
    return headers


def check_reach(actor: Actor, value: R, before: R | None) -> None:
    """Whether the caller may permit the hub to call these addresses. Raises `NotPermitted`."""
    allowed = value.addresses in (None, "public") or (
        before is not None and _address(before) == _address(value)
    )
    if not allowed and not actor.is_operator:
        raise NotPermitted(
            f"only an administrator of all hubs may set `addresses` to {value.addresses!r}"
        )


def _address(value: AuthProvider | RpcRoute | TrustedIssuer) -> tuple[str | None, Reach | None]:
    url = value.jwks_url if isinstance(value, TrustedIssuer) else value.url
    return url, value.addresses


def hide_secrets(value: V) -> V:
    """A setting with its secrets replaced by `(hidden)`."""
    if isinstance(value, AuthProvider | RpcRoute | CallbackSettings):
        hidden = dict.fromkeys(value.headers, HIDDEN)
        return cast(V, msgspec.structs.replace(value, headers=hidden))
    if isinstance(value, AdapterSettings):
        hidden = dict.fromkeys(value.secrets, HIDDEN)
        return cast(V, msgspec.structs.replace(value, secrets=hidden))
    if isinstance(value, MercureKey) and value.symmetric:
        return cast(V, msgspec.structs.replace(value, key=HIDDEN))
    return value
