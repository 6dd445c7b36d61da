"""Changing one setting: conditions, checks, audit, and effect everywhere at once."""

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
    SecretNeeded,
    VersionMismatch,
)
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
"""Stands for a secret in answers; sent back, it leaves the secret as it is."""
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
        """Changes of one hub go one after the other, so that what refers to something else finds
        it there."""
        lock = self._locks.get(hub)
        if lock is None:
            lock = self._locks[hub] = asyncio.Lock()
        return lock


class NamedSettings(Generic[S]):
    """The settings of one kind, by hub and name, with their versions. A value and its version
    always come from the store together; answers hide secrets. A kind with rules of its own
    overrides `_check` and `_prepare`."""

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
        """In the order of their names. Raises `HubNotFound`."""
        return [_visible(each) for each in await self._read(hub)]

    async def put(
        self, actor: Actor, hub: str, name: str, value: S, condition: Condition = ANY_VERSION
    ) -> Versioned[S]:
        """Create or replace a setting of an existing hub. Raises `BadRequest`, `HubNotFound`,
        `VersionMismatch`, and what `_check` and `_prepare` of the kind raise."""
        check_name(name, self._section.words)
        await self._check(hub, name, value)

        def change(before: S | None) -> S:
            return self._prepare(actor, hub, value, before)

        return _visible(await self._change(actor, hub, name, change, condition))

    async def delete(
        self, actor: Actor, hub: str, name: str, condition: Condition = ANY_VERSION
    ) -> None:
        """Raises `NotFound`, `VersionMismatch`, and `Conflict`, which names the settings that
        refer to it."""

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
        """Before the hub is locked. Raises `BadRequest`."""
        refuse(problems_of(value))

    def _prepare(self, actor: Actor, hub: str, value: S, before: S | None) -> S:
        """The value to store in place of `before`, while the hub is locked."""
        return value

    async def find(self, hub: str, name: str) -> Versioned[S] | None:
        """With its secrets. Raises `HubNotFound`."""
        return (await self.named(hub, [name])).get(name)

    async def named(self, hub: str, names: Sequence[str]) -> dict[str, Versioned[S]]:
        """Those of the names that are set, with their secrets. Raises `HubNotFound`."""
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
        return [
            self._versioned(entry)
            for entry in await self._editor.store.read_settings(hub)
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
        """Replace a setting of an existing hub by what `change` makes of it. Writing what is there
        already changes nothing. Raises `HubNotFound`, `VersionMismatch`, and what `change` does."""
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
        """As `_change`, for a caller that holds the lock and may be creating the hub."""

        async def put() -> Versioned[S]:
            known = await self.find(hub, name) if self._directory.is_stored(hub) else None
            version = 0 if known is None else known.version
            condition.check(version)
            before = None if known is None else known.value
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
    """Another node may be faster: without a condition of the caller, try again."""
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
    """Raises `BadRequest` with everything that is wrong."""
    found = [f"`{key}` {problem}" for key, problem in problems]
    if found:
        raise BadRequest("; ".join(found[:10]))


def need_rules(configuration: HubConfiguration, name: str | None) -> None:
    """Raises `Conflict` where the hub has no such rules to refer to."""
    if name is not None and name not in configuration.rules:
        raise Conflict(f"hub {configuration.hub!r} has no rules {name!r}; create them first")


def kept_headers(value: E, before: E | None) -> dict[str, str]:
    """The headers of an endpoint as they are stored: `(hidden)` stands for what was there. Raises
    `SecretNeeded` where that was given for another URL, or never."""
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
    """Whether the caller may let the hub ask at such addresses. Raises `NotPermitted`."""
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
    """A setting as others may see it."""
    if isinstance(value, AuthProvider | RpcRoute | CallbackSettings):
        hidden = dict.fromkeys(value.headers, HIDDEN)
        return cast(V, msgspec.structs.replace(value, headers=hidden))
    if isinstance(value, AdapterSettings):
        hidden = dict.fromkeys(value.secrets, HIDDEN)
        return cast(V, msgspec.structs.replace(value, secrets=hidden))
    return value
