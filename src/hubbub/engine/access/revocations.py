"""Revocations: tokens that are invalid before they expire."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil

from hubbub.domain.audit import AuditEntry
from hubbub.domain.permissions import Identity
from hubbub.engine.read_order import ReadOrder
from hubbub.ports.clock import Clock
from hubbub.ports.storage.administration import AdministrationStore, Revocation

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

    def covers(self, identity: Identity, now: int) -> bool:
        """A token with an issue time in the future, because a clock was set back, counts as issued
        before any revocation."""
        if identity.token_id in self.tokens or identity.parent_id in self.tokens:
            return True
        if not identity.authenticated:
            return False
        user = identity.user_id
        until = max(self.all_until, -1 if user is None else self.users.get(user, -1))
        return identity.issued_at <= until or (until >= 0 and identity.issued_at > now)


class Revocations:
    """All effective revocations, in memory; changes go through the store."""

    def __init__(self, store: AdministrationStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self.in_force: dict[str, _OfHub] = {}
        """By hub, or `ANY_HUB`."""
        self._order = ReadOrder()
        self._added: list[Revocation] = []
        """Revocations added since the oldest read in progress began, which may not have seen
        them."""

    def covers(self, hub: str, identity: Identity) -> bool:
        """Whether this identity was revoked, in this hub or everywhere."""
        now = ceil(self._clock.now() * 1000)
        return any(
            (revoked := self.in_force.get(where)) is not None and revoked.covers(identity, now)
            for where in ((ANY_HUB,) if identity.all_hubs else (hub, ANY_HUB))
        )

    async def add(self, revocation: Revocation, audit: AuditEntry | None = None) -> None:
        """Effective on this node at the return; the caller informs the other nodes."""
        await self._store.audited(audit).save_revocation(revocation)
        self._take(revocation)
        if not self._order.idle:
            self._added.append(revocation)

    async def load(self, hub: str | None = None) -> None:
        """Reads the revocations of one hub, or of all, again."""
        with self._order.read() as read:
            rows = await self._store.read_revocations(hub, int(self._clock.now() * 1000))
            self.in_force = {
                known: of_hub
                for known, of_hub in self.in_force.items()
                if read.outdated(known) or hub not in (None, known)
            }
            for row in (
                *rows,
                *self._added,
            ):
                self._take(row)
            read.applied(*(() if hub is None else (hub,)))
        if self._order.idle:
            self._added.clear()

    def _take(self, revocation: Revocation) -> None:
        self.in_force.setdefault(revocation.hub, _OfHub()).add(revocation)
