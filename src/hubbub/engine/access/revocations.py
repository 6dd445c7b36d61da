"""Revocations: tokens that hold no longer although they have not expired."""

from __future__ import annotations

from dataclasses import dataclass, field

from hubbub.domain.permissions import Identity
from hubbub.ports.clock import Clock
from hubbub.ports.storage.administration import AdministrationStore, AuditEntry, Revocation

ANY_HUB = "*"


@dataclass(slots=True, eq=False)
class _OfHub:
    """The revocations of one hub, or, under `*`, of all hubs. Times are in ms."""

    tokens: set[str] = field(default_factory=set)
    users: dict[str, int] = field(default_factory=dict)
    all_until: int = -1

    def add(self, revocation: Revocation) -> None:
        subject, until = revocation.subject, revocation.issued_until
        if revocation.kind == "token":
            self.tokens.add(subject)
        elif revocation.kind == "user":
            self.users[subject] = max(until, self.users.get(subject, -1))
        else:
            self.all_until = max(until, self.all_until)

    def covers(self, identity: Identity) -> bool:
        if identity.token_id in self.tokens or identity.parent_id in self.tokens:
            return True
        if not identity.authenticated:
            return False
        if identity.issued_at <= self.all_until:
            return True
        user = identity.user_id
        return user is not None and identity.issued_at <= self.users.get(user, -1)


class Revocations:
    """All that is in force, in memory; changed through the store."""

    def __init__(self, store: AdministrationStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self.in_force: dict[str, _OfHub] = {}
        """By hub, or `ANY_HUB`; none: nobody is covered."""

    def covers(self, hub: str, identity: Identity) -> bool:
        """Whether this identity was revoked, in this hub or everywhere."""
        return any(
            (revoked := self.in_force.get(where)) is not None and revoked.covers(identity)
            for where in ((ANY_HUB,) if identity.all_hubs else (hub, ANY_HUB))
        )

    async def add(self, revocation: Revocation, audit: AuditEntry | None = None) -> None:
        """In force on this node when it returns; the caller tells the others."""
        await self._store.save_revocation(revocation, audit)
        self.in_force.setdefault(revocation.hub, _OfHub()).add(revocation)

    async def load(self, hub: str | None = None) -> None:
        """Read those of one hub, or all, again."""
        rows = await self._store.read_revocations(hub, int(self._clock.now() * 1000))
        read: dict[str, _OfHub] = {}
        for row in rows:
            read.setdefault(row.hub, _OfHub()).add(row)
        if hub is None:
            self.in_force = read
        else:
            self.in_force.pop(hub, None)
            self.in_force.update(read)
