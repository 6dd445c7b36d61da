"""Audit entries, revocations, and the deletion of hubs."""

from __future__ import annotations

import msgspec

from hubbub.domain.audit import AuditEntry
from hubbub.ports.storage.administration import AuditQuery, Revocation
from hubbub.storage.sql.audit import AUDIT_COLUMNS, append_audit
from hubbub.storage.sql.connection import Sql, single_statement
from hubbub.storage.sql.documents import delete_documents_of

_HELD = (
    ("messages", "serial", "channels"),
    ("threads", "conversation", "channels"),
    ("thread_messages", "conversation, serial", "channels"),
    ("search_texts", "place", "channels"),
    ("notifications", "at", "notification_channels"),
)
"""Tables with rows of channels, the columns that identify a row within a channel, and the table of
the channels."""
_OF_HUB = (
    "producers", "cursors", "webhooks", "web_topics", "channels", "notification_channels",
    "comm_messages", "comm_deliveries", "comm_members", "metering", "hub_usage",
)  # fmt: skip
"""Tables that are deleted after those."""


def _later(column: str) -> str:
    """SQL for the greater of the row's value and the new one."""
    held, new = f"revocations.{column}", f"excluded.{column}"
    return f"CASE WHEN {held} > {new} THEN {held} ELSE {new} END"


_WIDEN_REVOCATION = (
    "INSERT INTO revocations (hub, kind, subject, issued_until, expires_at)"  # noqa: S608
    " VALUES ($1, $2, $3, $4, $5) ON CONFLICT (hub, kind, subject) DO UPDATE SET"
    f" issued_until = {_later('issued_until')}, expires_at = {_later('expires_at')}"
)


class AdministrationWrites:
    """Part of `Writes`; runs in its transactions."""

    _sql: Sql

    async def append_audit(self, entry: AuditEntry) -> None:
        await append_audit(self._sql, entry)

    async def delete_audit_before(self, time: int, limit: int) -> int:
        """Deletes at most `limit` entries."""
        which = "audit WHERE id IN (SELECT id FROM audit WHERE at < $1 LIMIT $2)"
        return await self._delete(which, time, limit)

    async def save_revocation(self, revocation: Revocation) -> None:
        await self._sql.execute(_WIDEN_REVOCATION, *msgspec.structs.astuple(revocation))

    async def delete_settings_of(self, hub: str) -> bool:
        """Phase one of deleting a hub: afterwards the hub does not exist for anyone."""
        await self._sql.lock("settings")
        tables = (
            "settings", "sessions", "push_tokens", "push_followings", "push_credentials",
            "retained", "channel_records", "user_subscriptions", "comm_peers",
            "comm_collectives", "comm_tokens",
        )  # fmt: skip
        deleted = [await self._delete(f"{table} WHERE hub = $1", hub) for table in tables]
        return any(deleted)

    async def delete_data_of(self, hub: str, limit: int) -> int:
        """Phase two: deletes at most `limit` messages or notifications, and the channels after
        their last one."""
        deleted = 0
        for table, position, channels in _HELD:
            which = (
                f"{table} WHERE (channel_id, {position}) IN (SELECT channel_id, {position}"  # noqa: S608
                f" FROM {channels} JOIN {table} ON channel_id = {channels}.id"
                " WHERE hub = $1 LIMIT $2)"
            )
            deleted += await self._delete(which, hub, limit - deleted)
        if deleted < limit:
            await delete_documents_of(self._sql, hub)
            for table in _OF_HUB:
                await self._delete(f"{table} WHERE hub = $1", hub)
        return deleted

    async def _delete(self, which: str, *values: object) -> int:
        return await self._sql.execute(f"DELETE FROM {which}", *values)  # noqa: S608


class AdministrationReads:
    """Part of `Reads`."""

    _sql: Sql

    @single_statement
    async def read_audit(self, query: AuditQuery) -> list[AuditEntry]:
        wanted = {
            "hub =": query.hub,
            "actor =": query.actor,
            "action =": query.action,
            "id <": query.before_id,
            "at >=": query.since,
            "at <": query.until,
        }
        given = {test: value for test, value in wanted.items() if value is not None}
        tests = "".join(f" AND {test} ${n}" for n, test in enumerate(given, 2))
        rows = await self._sql.fetch(
            f"SELECT {AUDIT_COLUMNS} FROM audit WHERE true{tests}"  # noqa: S608 - names only
            " ORDER BY id DESC LIMIT $1",
            query.limit,
            *given.values(),
        )
        return [AuditEntry(*row) for row in rows]

    @single_statement
    async def read_revocations(self, hub: str | None, now: int) -> list[Revocation]:
        columns = "SELECT hub, kind, subject, issued_until, expires_at FROM revocations"
        order = "ORDER BY hub, kind, subject"
        if hub is None:
            rows = await self._sql.fetch(f"{columns} WHERE expires_at > $1 {order}", now)
        else:
            which = "WHERE expires_at > $1 AND hub = $2"
            rows = await self._sql.fetch(f"{columns} {which} {order}", now, hub)
        return [Revocation(*row) for row in rows]
