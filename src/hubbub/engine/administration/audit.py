"""The audit log: who changed what, when, from what to what."""

from __future__ import annotations

import secrets
from typing import Any

import msgspec

from hubbub.domain.stored_settings import stored_form
from hubbub.engine.administration.actors import Actor
from hubbub.ports.clock import Clock
from hubbub.ports.storage.administration import AdministrationStore, AuditEntry, AuditQuery

_RANDOM_BITS = 11
"""Of an id, behind its milliseconds: few enough that a JSON number holds it exactly."""
_MOST_REMEMBERED = 10_000


def shown(entry: AuditEntry) -> dict[str, Any]:
    """An entry as the admin API shows it."""
    return {
        "id": entry.id,
        "at": entry.at,
        "hub": entry.hub,
        "actor": entry.actor,
        "level": entry.level,
        "action": entry.action,
        "name": entry.name,
        "tokenID": entry.token_id,
        "before": entry.before and msgspec.json.decode(entry.before),
        "after": entry.after and msgspec.json.decode(entry.after),
    }


class AuditIds:
    """Ids that rise within each hub, and that tell nothing of what other hubs do: a time, and
    random bits."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}

    def next(self, hub: str, now: int) -> int:
        """`now` is in ms since 1970."""
        fresh = (now << _RANDOM_BITS) + secrets.randbits(_RANDOM_BITS)
        if len(self._last) >= _MOST_REMEMBERED:
            self._last.clear()
        self._last[hub] = max(fresh, self._last.get(hub, 0) + 1)
        return self._last[hub]


class AuditLog:
    def __init__(self, store: AdministrationStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._ids = AuditIds()

    def entry(
        self,
        actor: Actor,
        action: str,
        hub: str,
        name: str = "",
        before: object = None,
        after: object = None,
    ) -> AuditEntry:
        """An entry about to be stored. `before` and `after` must hold no secrets."""
        now = int(self._clock.now() * 1000)
        return AuditEntry(
            at=now,
            hub=hub,
            actor=actor.name,
            level=actor.identity.level.value,
            action=action,
            name=name,
            before=None if before is None else msgspec.json.encode(stored_form(before)),
            after=None if after is None else msgspec.json.encode(stored_form(after)),
            token_id=actor.identity.token_id,
            id=self._ids.next(hub, now),
        )

    async def note(
        self,
        actor: Actor,
        action: str,
        hub: str,
        name: str = "",
        before: object = None,
        after: object = None,
    ) -> None:
        """For what is not stored itself; otherwise pass an `entry` to the store."""
        await self._store.append_audit(self.entry(actor, action, hub, name, before, after))

    async def read(self, query: AuditQuery) -> list[AuditEntry]:
        return await self._store.read_audit(query)
