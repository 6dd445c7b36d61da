"""The audit log: who changed what and when, with the values before and after."""

from __future__ import annotations

from typing import Any

import msgspec

from hubbub.domain.audit import AuditEntry
from hubbub.domain.stored_settings import stored_form
from hubbub.engine.administration.actors import Actor
from hubbub.ports import randomness
from hubbub.ports.clock import Clock
from hubbub.ports.storage.administration import AdministrationStore, AuditQuery

_RANDOM_BITS = 11
"""Random bits of an id after its milliseconds: few enough that a JSON number holds the id
exactly."""
_MOST_REMEMBERED = 10_000


def shown(entry: AuditEntry) -> dict[str, Any]:
    """An entry in the form of the admin API."""
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
    """Ids that increase within each hub and reveal nothing about other hubs: a time and random
    bits."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}

    def next(self, hub: str, now: int) -> int:
        """`now` is in ms since 1970."""
        fresh = (now << _RANDOM_BITS) + randomness.token_bits(_RANDOM_BITS)
        if len(self._last) >= _MOST_REMEMBERED:
            self._last.clear()
        self._last[hub] = max(fresh, self._last.get(hub, 0) + 1)
        return self._last[hub]


class AuditLog:
    def __init__(self, store: AdministrationStore, clock: Clock, many_nodes: bool = False) -> None:
        self._many_nodes = many_nodes
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
        """Creates an entry to store. `before` and `after` must contain no secrets."""
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
        """Stores an entry for an action that changes no setting; otherwise pass an `entry` to the
        store."""
        await self._store.append_audit(self.entry(actor, action, hub, name, before, after))

    async def ensure(self, *entries: AuditEntry) -> None:
        """Store the entries that the owner of a channel was asked to store with its change, unless
        they are stored: an owner of the version before does not."""
        for entry in entries if self._many_nodes else ():
            known = await self._store.read_audit(AuditQuery(1, entry.hub, before_id=entry.id + 1))
            if not known or known[0].id != entry.id:
                await self._store.append_audit(entry)

    async def read(self, query: AuditQuery) -> list[AuditEntry]:
        return await self._store.read_audit(query)
