"""Every change of a SQLite store, run inside a transaction that the caller opens and commits.

Each operation checks before it writes, so one that is refused leaves no trace in the
transaction that it shares with others.
"""

from __future__ import annotations

import sqlite3

import msgspec

from hubbub.domain.errors import Conflict, HubbubError, StaleOwner, VersionMismatch
from hubbub.domain.messages import Message
from hubbub.ports.store import Append, AuditEntry, PushToken, SessionSnapshot, SettingsEntry
from hubbub.storage.records import INSERT_MESSAGE, Row, to_blob, to_row
from hubbub.storage.sqlite_administration import AdministrationWrites

_PUT_RETAINED = (
    "INSERT INTO retained (hub, channel, expires_at, message) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (hub, channel) DO UPDATE"
    " SET expires_at = excluded.expires_at, message = excluded.message"
)


class Refusal(msgspec.Struct, frozen=True, array_like=True):
    """Why the append at this index was not stored."""

    index: int
    code: str
    message: str


class _Channel:
    """A channel's row as this batch leaves it."""

    __slots__ = ("epoch", "exists", "head", "high_at", "id")

    def __init__(self, id_: int, epoch: str, head: int, high_at: int, exists: bool = True) -> None:
        self.id = id_
        self.epoch = epoch
        self.head = head
        self.high_at = high_at
        self.exists = exists


class Writes(AdministrationWrites):
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._sql = connection

    # -- ownership ----------------------------------------------------------------------------

    def acquire_partitions(self, partitions: list[int], owner: str) -> dict[int, int]:
        self._sql.executemany(
            "INSERT INTO partitions (partition_id, owner, term) VALUES (?, ?, 1)"
            " ON CONFLICT (partition_id) DO UPDATE SET owner = excluded.owner, term = term + 1",
            [(partition, owner) for partition in dict.fromkeys(partitions)],
        )
        return self._terms(set(partitions))

    def _terms(self, partitions: set[int]) -> dict[int, int]:
        return dict(
            self._sql.execute(
                "SELECT partition_id, term FROM partitions"
                " WHERE partition_id IN (SELECT value FROM json_each(?))",
                (msgspec.json.encode(partitions).decode(),),
            )
        )

    def _check_term(self, partition: int, term: int) -> None:
        refused = _stale(partition, term, self._terms({partition}))
        if refused is not None:
            raise refused

    # -- messages -----------------------------------------------------------------------------

    def append(self, appends: list[Append]) -> list[Refusal]:
        """Store what continues its channel's head under the current term; answer the rest."""
        terms = self._terms({append.partition for append in appends})
        channels: dict[tuple[str, str], _Channel] = {}
        rows: list[Row] = []
        retained: dict[tuple[str, str], tuple[str, str, int, bytes]] = {}
        stored_bytes: dict[str, int] = {}
        refusals: list[Refusal] = []
        for index, append in enumerate(appends):
            message = append.message
            key = (message.hub, message.channel)
            channel = channels.get(key)
            if channel is None:
                channel = channels[key] = self._read_channel(*key, append.epoch)
            refused = _refuse(append, terms, channel)
            if refused is not None:
                refusals.append(Refusal(index, refused.code, refused.message))
                continue
            if not channel.exists:
                self._create_channel(message, channel)
            channel.head = message.serial
            channel.high_at = max(channel.high_at, message.published_at)
            rows.append(to_row(message, channel.id, channel.high_at))
            stored_bytes[message.hub] = stored_bytes.get(message.hub, 0) + len(message.payload)
            if append.retain_until is not None:
                retained[key] = (*key, append.retain_until, to_blob(message))
        self._sql.executemany(INSERT_MESSAGE, rows)
        self._sql.executemany(
            "UPDATE channels SET head = ?, high_at = ? WHERE id = ?",
            [(c.head, c.high_at, c.id) for c in channels.values() if c.exists],
        )
        self._sql.executemany(_PUT_RETAINED, list(retained.values()))
        for hub, count in stored_bytes.items():
            self._count_bytes(hub, count)
        return refusals

    def _read_channel(self, hub: str, name: str, epoch: str) -> _Channel:
        """A channel that is not there yet answers as one that waits for its first message."""
        row = self._sql.execute(
            "SELECT id, epoch, head, high_at FROM channels WHERE hub = ? AND name = ?", (hub, name)
        ).fetchone()
        return _Channel(0, epoch, 0, 0, False) if row is None else _Channel(*row)

    def _create_channel(self, first: Message, channel: _Channel) -> None:
        (channel.id,) = self._sql.execute(
            "INSERT INTO channels (hub, name, epoch, head, first_serial, high_at)"
            " VALUES (?, ?, ?, 0, 1, 0) RETURNING id",
            (first.hub, first.channel, channel.epoch),
        ).fetchone()
        channel.exists = True

    def _count_bytes(self, hub: str, change: int) -> None:
        self._sql.execute(
            "INSERT INTO hub_usage (hub, stored_bytes) VALUES (?, ?) ON CONFLICT (hub)"
            " DO UPDATE SET stored_bytes = stored_bytes + excluded.stored_bytes",
            (hub, change),
        )

    def delete_before(self, hub: str, channel: str, serial: int, limit: int) -> int:
        """Drop at most `limit` messages, the oldest first; answers how many went."""
        row = self._sql.execute(
            "SELECT id, head, first_serial FROM channels WHERE hub = ? AND name = ?",
            (hub, channel),
        ).fetchone()
        if row is None:
            return 0
        channel_id, head, first = row
        end = min(serial, head + 1, first + limit)
        if end <= first:
            return 0
        which = (channel_id, end)
        (freed,) = self._sql.execute(
            "SELECT coalesce(sum(length(payload)), 0) FROM messages"
            " WHERE channel_id = ? AND serial < ?",
            which,
        ).fetchone()
        deleted = self._sql.execute(
            "DELETE FROM messages WHERE channel_id = ? AND serial < ?", which
        ).rowcount
        self._sql.execute("UPDATE channels SET first_serial = ? WHERE id = ?", (end, channel_id))
        self._count_bytes(hub, -freed)
        return deleted

    # -- retained -----------------------------------------------------------------------------

    def save_retained(self, message: Message, expires_at: int, partition: int, term: int) -> None:
        self._check_term(partition, term)
        row = (message.hub, message.channel, expires_at, to_blob(message))
        self._sql.execute(_PUT_RETAINED, row)

    def delete_retained(self, hub: str, channel: str, partition: int, term: int) -> None:
        self._check_term(partition, term)
        self._sql.execute("DELETE FROM retained WHERE hub = ? AND channel = ?", (hub, channel))

    # -- settings -----------------------------------------------------------------------------

    def put_settings(
        self,
        entries: list[SettingsEntry],
        expected: dict[str, int] | None,
        audit: AuditEntry | None,
    ) -> list[SettingsEntry]:
        for name, version in (expected or {}).items():
            named = [entry for entry in entries if entry.name == name]
            if not named:
                raise Conflict(f"version {version} is expected of {name!r}, which is not being put")
            for entry in named:
                self._check_version(entry.kind, entry.hub, name, version)
        self._note(audit)
        return [self._put_setting(entry) for entry in entries]

    def _check_version(self, kind: str, hub: str, name: str, expected: int) -> None:
        row = self._sql.execute(
            "SELECT version FROM settings WHERE kind = ? AND hub = ? AND name = ?",
            (kind, hub, name),
        ).fetchone()
        current = 0 if row is None else row[0]
        if current != expected:
            raise VersionMismatch(
                f"the {kind} setting {name!r} of hub {hub!r} is at version {current}, not"
                f" {expected}; read it again and repeat the change"
            )

    def _put_setting(self, entry: SettingsEntry) -> SettingsEntry:
        (version,) = self._sql.execute(
            "INSERT INTO settings (kind, hub, name, value, version) VALUES (?, ?, ?, ?, 1)"
            " ON CONFLICT (kind, hub, name)"
            " DO UPDATE SET value = excluded.value, version = version + 1 RETURNING version",
            (entry.kind, entry.hub, entry.name, entry.value),
        ).fetchone()
        return msgspec.structs.replace(entry, version=version)

    def delete_settings(
        self, kind: str, hub: str, name: str, expected: int | None, audit: AuditEntry | None
    ) -> bool:
        if expected is not None:
            self._check_version(kind, hub, name, expected)
        which = "settings WHERE kind = ? AND hub = ? AND name = ?"
        found = self._delete(which, kind, hub, name) > 0
        if found:
            self._note(audit)
        return found

    # -- sessions and push tokens -------------------------------------------------------------

    def save_sessions(self, snapshots: list[SessionSnapshot]) -> None:
        self._sql.executemany(
            "INSERT INTO sessions (key_hash, hub, session_id, state, expires_at)"
            " VALUES (?, ?, ?, ?, ?) ON CONFLICT (key_hash) DO UPDATE SET hub = excluded.hub,"
            " session_id = excluded.session_id, state = excluded.state,"
            " expires_at = excluded.expires_at",
            list(map(msgspec.structs.astuple, snapshots)),
        )

    def delete_sessions(self, key_hashes: list[bytes]) -> None:
        self._sql.executemany(
            "DELETE FROM sessions WHERE key_hash = ?", [(key_hash,) for key_hash in key_hashes]
        )

    def save_push_token(self, token: PushToken) -> None:
        self._sql.execute(
            "INSERT INTO push_tokens (hub, platform, token, user_id) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (hub, platform, token) DO UPDATE SET user_id = excluded.user_id",
            (token.hub, token.platform, token.token, token.user_id),
        )

    def delete_push_token(self, hub: str, platform: str, token: str) -> bool:
        return (
            self._delete(
                "push_tokens WHERE hub = ? AND platform = ? AND token = ?", hub, platform, token
            )
            > 0
        )

    # -- upkeep -------------------------------------------------------------------------------

    def delete_expired(self, now: int, limit: int) -> int:
        """Drop at most `limit` rows of each kind."""
        picked = "WHERE rowid IN (SELECT rowid FROM {0} WHERE expires_at <= ? LIMIT ?)"
        return sum(
            self._delete(f"{table} {picked.format(table)}", now, limit)
            for table in ("retained", "sessions", "revocations")
        )


def _refuse(append: Append, terms: dict[int, int], channel: _Channel) -> HubbubError | None:
    stale = _stale(append.partition, append.term, terms)
    if stale is not None:
        return stale
    message = append.message
    if append.epoch == channel.epoch and message.serial == channel.head + 1:
        return None
    return Conflict(
        f"message {message.id!r} has serial {message.serial} in epoch {append.epoch!r}, but the"
        f" channel {message.channel!r} of hub {message.hub!r} stands at {channel.head} in epoch"
        f" {channel.epoch!r}; read the head again"
    )


def _stale(partition: int, term: int, terms: dict[int, int]) -> StaleOwner | None:
    current = terms.get(partition)
    if current == term:
        return None
    owned = "owned by nobody" if current is None else f"owned under term {current} by now"
    return StaleOwner(f"partition {partition} is {owned}; a write under term {term} was refused")
