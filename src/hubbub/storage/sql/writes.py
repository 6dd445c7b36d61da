"""All writes of a store, run in a transaction that the caller opens and commits.

Each operation checks before it writes, so a refused one leaves no trace in the shared transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from hubbub.domain.errors import Conflict, VersionMismatch
from hubbub.domain.messages import Message
from hubbub.ports.storage.messages import Append
from hubbub.ports.storage.sessions import SessionSnapshot
from hubbub.ports.storage.settings import SettingsEntry
from hubbub.storage.sql.administration import AdministrationWrites
from hubbub.storage.sql.appending import PUT_RETAINED, RefusedAppend, append_messages
from hubbub.storage.sql.commands import CommandWrites
from hubbub.storage.sql.communication import CommunicationWrites
from hubbub.storage.sql.connection import ManyRows, Sql, insert, put, replacing
from hubbub.storage.sql.documents import DocumentWrites
from hubbub.storage.sql.erasure import ErasureWrites
from hubbub.storage.sql.exports import ExportWrites
from hubbub.storage.sql.metering import MeteringWrites
from hubbub.storage.sql.notifications import NotificationWrites
from hubbub.storage.sql.push import PushWrites
from hubbub.storage.sql.records import to_blob
from hubbub.storage.sql.restoring import RestoreWrites
from hubbub.storage.sql.retention import RetentionWrites
from hubbub.storage.sql.search import SearchWrites
from hubbub.storage.sql.threads import ThreadWrites
from hubbub.storage.sql.topics import TopicWrites
from hubbub.storage.sql.usage import check_term, read_terms
from hubbub.storage.sql.webhooks import WebhookWrites

_PARTITION = {"partition_id": "bigint", "owner": "text", "term": "bigint"}
_KNOW_PARTITIONS = insert("partitions", _PARTITION, "ON CONFLICT (partition_id) DO NOTHING")
_TAKE_PARTITIONS = insert(
    "partitions",
    _PARTITION,
    "ON CONFLICT (partition_id) DO UPDATE SET owner = excluded.owner, term = partitions.term + 1",
)
_SESSION = {
    "key_hash": "bytea",
    "hub": "text",
    "session_id": "text",
    "state": "bytea",
    "expires_at": "bigint",
    "holder": "text",
}
_PUT_SESSIONS = insert("sessions", _SESSION, replacing(_SESSION, "key_hash"))
_PUT_HOLDER = put("session_holders", ("holder", "held_until"), "holder")
_DELETE_SESSIONS = ManyRows(
    table="sessions",
    single="DELETE FROM sessions WHERE key_hash = $1",
    arrays="DELETE FROM sessions WHERE key_hash = ANY($1)",
)
_EXPIRING = (
    ("retained", "hub, channel", "expires_at <= $1"),
    (
        "sessions",
        "key_hash",
        "expires_at <= $1"
        " AND holder NOT IN (SELECT holder FROM session_holders WHERE held_until > $1)",
    ),
    ("revocations", "hub, kind, subject", "expires_at <= $1"),
    ("push_tokens", "hub, platform, token", "due_at <= $1"),
    ("comm_tokens", "hub, peer", "expires_at <= $1"),
)
"""Tables, their keys, and the condition for rows that expired by $1."""


class Writes(
    RetentionWrites,
    ErasureWrites,
    ThreadWrites,
    SearchWrites,
    TopicWrites,
    NotificationWrites,
    DocumentWrites,
    WebhookWrites,
    PushWrites,
    CommandWrites,
    CommunicationWrites,
    ExportWrites,
    AdministrationWrites,
    RestoreWrites,
    MeteringWrites,
):
    def __init__(self, sql: Sql) -> None:
        self._sql = sql

    # -- ownership ----------------------------------------------------------------------------

    async def acquire_partitions(
        self, partitions: Sequence[int], owner: str, seen: Mapping[int, int] | None = None
    ) -> dict[int, int]:
        wanted = sorted(set(partitions))
        if seen is not None:
            wanted = await self._unchanged(wanted, seen)
        rows = [(partition, owner, 1) for partition in wanted]
        await self._sql.execute_many(_TAKE_PARTITIONS, rows)
        return await read_terms(self._sql, set(wanted))

    async def _unchanged(self, partitions: list[int], seen: Mapping[int, int]) -> list[int]:
        """The partitions whose terms are unchanged. No other node takes them over until the
        transaction ends."""
        rows = [(partition, "", 0) for partition in partitions]  # a lock needs a row
        await self._sql.execute_many(_KNOW_PARTITIONS, rows)
        terms = await self._sql.fetch(
            "SELECT partition_id, term FROM partitions WHERE partition_id = ANY($1)"
            " ORDER BY partition_id FOR UPDATE",
            partitions,
        )
        return [partition for partition, term in terms if term == seen.get(partition, 0)]

    async def count_beat(self, node: str) -> dict[str, int]:
        await self._sql.execute(
            "INSERT INTO nodes (name, beats) VALUES ($1, 1)"
            " ON CONFLICT (name) DO UPDATE SET beats = nodes.beats + 1",
            node,
        )
        rows = await self._sql.fetch("SELECT name, beats FROM nodes")
        return {str(name): int(beats) for name, beats in rows}

    async def forget_node(self, node: str) -> None:
        await self._sql.execute("DELETE FROM nodes WHERE name = $1", node)

    # -- messages -----------------------------------------------------------------------------

    async def append(self, appends: list[Append]) -> list[RefusedAppend]:
        """Stores appends that continue their channel's head under the current term; returns the
        refusals."""
        return await append_messages(self._sql, appends)

    # -- retained -----------------------------------------------------------------------------

    async def save_retained(
        self, message: Message, expires_at: int, partition: int, term: int
    ) -> None:
        await check_term(self._sql, partition, term)
        row = (message.hub, message.channel, expires_at, to_blob(message))
        await self._sql.execute_many(PUT_RETAINED, [row])

    async def delete_retained(self, hub: str, channel: str, partition: int, term: int) -> None:
        await check_term(self._sql, partition, term)
        await self._delete("retained WHERE hub = $1 AND channel = $2", hub, channel)

    # -- settings -----------------------------------------------------------------------------

    async def put_settings(
        self,
        entries: Sequence[SettingsEntry],
        expected: Mapping[str, int] | None = None,
    ) -> list[SettingsEntry]:
        await self._sql.lock("settings")
        for name, version in (expected or {}).items():
            named = [entry for entry in entries if entry.name == name]
            if not named:
                raise Conflict(f"version {version} is expected of {name!r}, which is not being put")
            for entry in named:
                await self._check_version(entry.kind, entry.hub, name, version)
        return [await self._put_setting(entry) for entry in entries]

    async def _check_version(self, kind: str, hub: str, name: str, expected: int) -> None:
        found = await self._sql.fetch(
            "SELECT version FROM settings WHERE kind = $1 AND hub = $2 AND name = $3",
            kind,
            hub,
            name,
        )
        current = found[0][0] if found else 0
        if current != expected:
            raise VersionMismatch(
                f"the {kind} setting {name!r} of hub {hub!r} is at version {current}, not"
                f" {expected}; read it again and repeat the change"
            )

    async def _put_setting(self, entry: SettingsEntry) -> SettingsEntry:
        ((version,),) = await self._sql.fetch(
            "INSERT INTO settings (kind, hub, name, value, version) VALUES ($1, $2, $3, $4, 1)"
            " ON CONFLICT (kind, hub, name) DO UPDATE"
            " SET value = excluded.value, version = settings.version + 1 RETURNING version",
            entry.kind,
            entry.hub,
            entry.name,
            entry.value,
        )
        return msgspec.structs.replace(entry, version=version)

    async def delete_settings(
        self,
        kind: str,
        hub: str,
        name: str,
        expected: int | None = None,
    ) -> bool:
        await self._sql.lock("settings")
        if expected is not None:
            await self._check_version(kind, hub, name, expected)
        which = "settings WHERE kind = $1 AND hub = $2 AND name = $3"
        return await self._delete(which, kind, hub, name) > 0

    # -- sessions -----------------------------------------------------------------------------

    async def save_sessions(self, snapshots: Sequence[SessionSnapshot]) -> None:
        last = {snapshot.key_hash: msgspec.structs.astuple(snapshot) for snapshot in snapshots}
        await self._sql.execute_many(_PUT_SESSIONS, sorted(last.values()))

    async def hold_sessions(self, holder: str, until: int) -> None:
        await self._sql.execute(_PUT_HOLDER, holder, until)

    async def delete_sessions(self, key_hashes: Sequence[bytes]) -> None:
        await self._sql.execute_many(_DELETE_SESSIONS, [(key_hash,) for key_hash in key_hashes])

    async def delete_sessions_named(self, hub: str, session_id: str) -> None:
        await self._delete("sessions WHERE hub = $1 AND session_id = $2", hub, session_id)

    # -- upkeep -------------------------------------------------------------------------------

    async def delete_expired(self, now: int, limit: int) -> int:
        """Deletes at most `limit` rows of each kind."""
        deleted = 0
        for table, key, expired in _EXPIRING:
            picked = f"SELECT {key} FROM {table} WHERE {expired} LIMIT $2"  # noqa: S608
            # A row that was written anew in the meantime has not expired any more.
            which = f"{table} WHERE ({key}) IN ({picked}) AND {expired}"
            deleted += await self._delete(which, now, limit)
        await self._delete("session_holders WHERE held_until <= $1", now)
        return deleted
