"""What administrators leave behind in a SQLite store: audit, revocations, hubs that are gone."""

from __future__ import annotations

import sqlite3

from hubbub.ports.store import AuditEntry, AuditQuery, Revocation

_AUDIT_COLUMNS = "at, hub, actor, level, action, name, before, after, token_id, id"


class AdministrationWrites:
    """Part of `Writes`; runs in its transactions."""

    _sql: sqlite3.Connection

    def append_audit(self, entry: AuditEntry) -> None:
        self._sql.execute(
            "INSERT INTO audit (at, hub, actor, level, action, name, before, after, token_id)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                entry.at,
                entry.hub,
                entry.actor,
                entry.level,
                entry.action,
                entry.name,
                entry.before,
                entry.after,
                entry.token_id,
            ),
        )

    def _note(self, entry: AuditEntry | None) -> None:
        if entry is not None:
            self.append_audit(entry)

    def delete_audit_before(self, time: int, limit: int) -> int:
        """Drop at most `limit` entries."""
        return self._delete(
            "audit WHERE id IN (SELECT id FROM audit WHERE at < ? LIMIT ?)", time, limit
        )

    def save_revocation(self, revocation: Revocation, audit: AuditEntry | None) -> None:
        self._sql.execute(
            "INSERT INTO revocations (hub, kind, subject, issued_until, expires_at)"
            " VALUES (?, ?, ?, ?, ?) ON CONFLICT (hub, kind, subject) DO UPDATE SET"
            " issued_until = max(issued_until, excluded.issued_until),"
            " expires_at = max(expires_at, excluded.expires_at)",
            (
                revocation.hub,
                revocation.kind,
                revocation.subject,
                revocation.issued_until,
                revocation.expires_at,
            ),
        )
        self._note(audit)

    def delete_settings_of(self, hub: str, audit: AuditEntry | None) -> bool:
        """The first part of a hub's deletion: with it the hub is gone for everyone."""
        tables = ("settings", "sessions", "push_tokens", "retained")
        deleted = [self._delete(f"{table} WHERE hub = ?", hub) for table in tables]
        if any(deleted):
            self._note(audit)
        return any(deleted)

    def delete_data_of(self, hub: str, limit: int) -> int:
        """The second part: at most `limit` messages, and what is left of the channels after the
        last one."""
        deleted = self._delete(
            "messages WHERE rowid IN (SELECT messages.rowid FROM channels JOIN messages"
            " ON channel_id = channels.id WHERE hub = ? LIMIT ?)",
            hub,
            limit,
        )
        if deleted < limit:
            self._delete("channels WHERE hub = ?", hub)
            self._delete("hub_usage WHERE hub = ?", hub)
        return deleted

    def _delete(self, which: str, *parameters: object) -> int:
        return self._sql.execute(f"DELETE FROM {which}", parameters).rowcount  # noqa: S608


class AdministrationReads:
    """Part of `Reads`."""

    _sql: sqlite3.Connection

    def read_audit(self, query: AuditQuery) -> list[AuditEntry]:
        rows = self._sql.execute(
            f"SELECT {_AUDIT_COLUMNS} FROM audit"  # noqa: S608 - column names only
            " WHERE (?1 IS NULL OR hub = ?1) AND (?2 IS NULL OR actor = ?2)"
            " AND (?3 IS NULL OR action = ?3) AND (?4 IS NULL OR id < ?4)"
            " ORDER BY id DESC LIMIT ?5",
            (query.hub, query.actor, query.action, query.before_id, query.limit),
        )
        return [AuditEntry(*row) for row in rows]

    def read_revocations(self, hub: str | None, now: int) -> list[Revocation]:
        rows = self._sql.execute(
            "SELECT hub, kind, subject, issued_until, expires_at FROM revocations"
            " WHERE (?1 IS NULL OR hub = ?1) AND expires_at > ?2 ORDER BY hub, kind, subject",
            (hub, now),
        )
        return [Revocation(*row) for row in rows]
