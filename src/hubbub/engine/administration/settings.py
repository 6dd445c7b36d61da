"""Changing one setting: conditions, checks, audit, and effect everywhere at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import msgspec

from hubbub.domain.callbacks import Reach
from hubbub.domain.errors import (
    BadRequest,
    Conflict,
    NotFound,
    NotPermitted,
    SecretNeeded,
    VersionMismatch,
)
from hubbub.domain.rules import AuthProvider, HubConfiguration, RpcRoute, TrustedIssuer
from hubbub.domain.setting_checks import Problem
from hubbub.engine.administration.actors import Actor
from hubbub.engine.administration.audit import AuditLog
from hubbub.engine.administration.versions import Condition, Versioned
from hubbub.engine.directory import Directory, Setting
from hubbub.ports.storage.settings import SettingsStore

HIDDEN = "(hidden)"
"""Stands for a secret in answers; sent back, it leaves the secret as it is."""
_ATTEMPTS = 10
_SECTIONS = {
    "rules": "rules",
    "namespace": "namespaces",
    "channel": "channels",
    "auth_provider": "auth_providers",
    "rpc_route": "rpc_routes",
}

S = TypeVar("S", bound=Setting)
E = TypeVar("E", bound=AuthProvider | RpcRoute)
R = TypeVar("R", bound=AuthProvider | RpcRoute | TrustedIssuer)


class SettingsEditor:
    """Reads and writes single settings of hubs, with their versions. A value and its version
    always come from the store together."""

    def __init__(self, directory: Directory, store: SettingsStore, audit: AuditLog) -> None:
        self.directory = directory
        self._store = store
        self._audit = audit
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def lock(self, hub: str) -> asyncio.Lock:
        """Changes of one hub go one after the other, so that what refers to something else finds
        it there."""
        lock = self._locks.get(hub)
        if lock is None:
            lock = self._locks[hub] = asyncio.Lock()
        return lock

    async def read(self, hub: str, kind: str, name: str, of: type[S]) -> Versioned[S] | None:
        """One setting. Raises `HubNotFound`."""
        return next(
            (each for each in await self.read_all(hub, kind, of) if each.name == name), None
        )

    async def read_all(self, hub: str, kind: str, of: type[S]) -> list[Versioned[S]]:
        """All of one kind, by name. Raises `HubNotFound`."""
        configuration = self.directory.get(hub)
        if not self.directory.is_stored(hub):
            section: dict[str, Any] = {"": configuration.settings}
            if kind in _SECTIONS:
                section = getattr(configuration, _SECTIONS[kind])
            return [Versioned(name, section[name], 0) for name in sorted(section)]
        return [
            Versioned(entry.name, msgspec.json.decode(entry.value, type=of), entry.version)
            for entry in await self._store.read_settings(hub)
            if entry.kind == kind
        ]

    async def put(
        self,
        actor: Actor,
        hub: str,
        kind: str,
        name: str,
        of: type[S],
        change: Callable[[S | None], S],
        condition: Condition,
    ) -> Versioned[S]:
        """Replace a setting of an existing hub by what `change` makes of it. Writing what is there
        already changes nothing. Raises `HubNotFound`, `VersionMismatch`, and what `change` does."""
        async with self.lock(hub):
            await self.directory.settle(hub)
            return await self.put_locked(actor, hub, kind, name, of, change, condition)

    async def put_locked(
        self,
        actor: Actor,
        hub: str,
        kind: str,
        name: str,
        of: type[S],
        change: Callable[[S | None], S],
        condition: Condition,
    ) -> Versioned[S]:
        """The same, for a caller that holds the lock and may be creating the hub."""
        for attempt in range(_ATTEMPTS):
            exists = self.directory.is_stored(hub)
            known = await self.read(hub, kind, name, of) if exists else None
            version = 0 if known is None else known.version
            condition.check(version)
            before = None if known is None else known.value
            after = change(before)
            if known is not None and after == before:
                return Versioned(name, after, version)
            note = self._audit.entry(actor, f"{kind}.put", hub, name, shown(before), shown(after))
            try:
                saved = await self.directory.put(hub, kind, name, after, version, note)
            except VersionMismatch:
                # Another node was faster. Without a condition of the caller, try again.
                if condition.is_given or attempt == _ATTEMPTS - 1:
                    raise
            else:
                return Versioned(name, after, saved, created=not version)
        raise AssertionError("unreachable")

    async def delete(
        self,
        actor: Actor,
        hub: str,
        kind: str,
        name: str,
        of: type[S],
        condition: Condition,
        users: Callable[[HubConfiguration], Iterable[str]] = lambda _: (),
    ) -> None:
        """Raises `NotFound`, `VersionMismatch`, and `Conflict` if it has `users`."""
        async with self.lock(hub):
            await self.directory.settle(hub)
            for attempt in range(_ATTEMPTS):
                known = await self.read(hub, kind, name, of)
                if known is None:
                    raise NotFound(f"hub {hub!r} has no {kind.replace('_', ' ')} {name!r}")
                condition.check(known.version)
                _refuse_used(kind, name, list(users(self.directory.get(hub))))
                note = self._audit.entry(actor, f"{kind}.delete", hub, name, shown(known.value))
                try:
                    await self.directory.delete(hub, kind, name, known.version, note)
                    return
                except VersionMismatch:
                    if condition.is_given or attempt == _ATTEMPTS - 1:
                        raise


def _refuse_used(kind: str, name: str, users: list[str]) -> None:
    if users:
        more = f" and {len(users) - 10} more" if len(users) > 10 else ""
        what = kind.replace("_", " ")
        raise Conflict(f"the {what} {name!r} is in use: by {', '.join(users[:10])}{more}")


def refuse(problems: Iterable[Problem]) -> None:
    """Raises `BadRequest` with everything that is wrong."""
    found = [f"`{key}` {problem}" for key, problem in problems]
    if found:
        raise BadRequest("; ".join(found[:10]))


def need_rules(configuration: HubConfiguration, name: str) -> None:
    """Raises `Conflict` where the hub has no such rules to refer to."""
    if name not in configuration.rules:
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


def hide_secrets(provider: E) -> E:
    return msgspec.structs.replace(provider, headers=dict.fromkeys(provider.headers, HIDDEN))


def shown(value: Setting | None) -> Setting | None:
    """A setting as others may see it."""
    return hide_secrets(value) if isinstance(value, AuthProvider | RpcRoute) else value
