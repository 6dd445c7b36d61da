"""The audit log: who changed what, when, from what to what."""

from __future__ import annotations

import msgspec

from hubbub.engine.administration.actors import Actor
from hubbub.ports.clock import Clock
from hubbub.ports.storage.administration import AdministrationStore, AuditEntry, AuditQuery


class AuditLog:
    def __init__(self, store: AdministrationStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

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
        return AuditEntry(
            at=int(self._clock.now() * 1000),
            hub=hub,
            actor=actor.name,
            level=actor.identity.level.value,
            action=action,
            name=name,
            before=None if before is None else msgspec.json.encode(before),
            after=None if after is None else msgspec.json.encode(after),
            token_id=actor.identity.token_id,
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
