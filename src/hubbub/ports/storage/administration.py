"""Audit entries and revocations."""

from __future__ import annotations

from typing import Protocol

import msgspec

from hubbub.domain.audit import AuditEntry
from hubbub.ports.storage.audited import Audited


class AuditQuery(msgspec.Struct, frozen=True):
    """Selects entries, newest first; None matches any. `since` is inclusive and `until` exclusive,
    in ms since 1970."""

    limit: int
    hub: str | None = None
    actor: str | None = None
    action: str | None = None
    before_id: int | None = None
    since: int | None = None
    until: int | None = None


class Revocation(msgspec.Struct, frozen=True):
    """Revoked tokens: the one with the id `subject` (kind `token`), those of the user `subject`
    (`user`) or of the whole hub (`hub`) that were issued until `issued_until` (ms since 1970).
    After `expires_at` (ms) all of them have expired."""

    hub: str
    kind: str
    subject: str
    issued_until: int
    expires_at: int


class AdministrationStore(Audited, Protocol):
    """The audit log, and revoked tokens."""

    async def append_audit(self, entry: AuditEntry) -> None: ...

    async def read_audit(self, query: AuditQuery) -> list[AuditEntry]:
        """Matching entries, newest first."""

    async def delete_audit_before(self, time: int) -> int:
        """Deletes entries older than this time (ms). Returns how many."""

    async def save_revocation(self, revocation: Revocation) -> None:
        """Creates or extends a revocation; it never becomes smaller or shorter."""

    async def read_revocations(self, hub: str | None, now: int) -> list[Revocation]:
        """Revocations of one hub, or of all, that are not expired at `now` (ms), ordered by hub,
        kind, subject."""
