"""Audit entries and revocations."""

from __future__ import annotations

from typing import Protocol

import msgspec


class AuditEntry(msgspec.Struct, frozen=True):
    """Who changed what. `at` is in ms since 1970; `before` and `after` are JSON, None where there
    was or is nothing. The `id` rises with time in a hub, and does not count the entries of others;
    where it is taken, the store gives the next free one."""

    at: int
    hub: str
    actor: str
    level: str
    action: str
    name: str
    before: bytes | None = None
    after: bytes | None = None
    token_id: str | None = None
    id: int = 0


class AuditQuery(msgspec.Struct, frozen=True):
    """Which entries to read, the newest first; None means any. From `since` on and before `until`,
    in ms since 1970."""

    limit: int
    hub: str | None = None
    actor: str | None = None
    action: str | None = None
    before_id: int | None = None
    since: int | None = None
    until: int | None = None


class Revocation(msgspec.Struct, frozen=True):
    """Tokens that hold no longer: the one with the id `subject` (kind `token`), those of the user
    `subject` (`user`) or all of the hub (`hub`) that were issued until `issued_until` (ms since
    1970). After `expires_at` (ms) every such token has expired anyway."""

    hub: str
    kind: str
    subject: str
    issued_until: int
    expires_at: int


class AdministrationStore(Protocol):
    """The audit log, and tokens that were taken back."""

    async def append_audit(self, entry: AuditEntry) -> None: ...

    async def read_audit(self, query: AuditQuery) -> list[AuditEntry]:
        """Entries that match, the newest first."""

    async def delete_audit_before(self, time: int) -> int:
        """Drop entries that are older than this time (ms). Answers how many went."""

    async def save_revocation(
        self, revocation: Revocation, audit: AuditEntry | None = None
    ) -> None:
        """Create or widen: a revocation never becomes smaller or shorter."""

    async def read_revocations(self, hub: str | None, now: int) -> list[Revocation]:
        """Those of one hub or of all that have not expired by `now` (ms), ordered by hub, kind,
        subject."""
