"""Every question to a SQLite store, run inside a transaction that the caller opens, so that an
answer that takes several statements comes from one moment."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from hubbub.domain.messages import Message
from hubbub.ports.store import (
    ChannelHead,
    PushToken,
    Retained,
    SessionSnapshot,
    SettingsEntry,
    StoredPage,
)
from hubbub.storage.records import MESSAGE_COLUMNS, Row, from_blob, from_row
from hubbub.storage.sqlite_administration import AdministrationReads

# Table and column names only; every value is a parameter.
_SELECT = f"SELECT {MESSAGE_COLUMNS} FROM messages WHERE channel_id = ?"  # noqa: S608
_AFTER = f"{_SELECT} AND serial > ? ORDER BY serial LIMIT ?"
_BEFORE = f"{_SELECT} AND serial < ? ORDER BY serial DESC LIMIT ?"
_AFTER_TIME = f"{_SELECT} AND serial >= ? AND published_at > ? ORDER BY serial LIMIT ?"
_LATE_BEFORE_TIME = (
    f"{_SELECT} AND serial >= ? AND published_at < high_at AND published_at < ?"
    " ORDER BY serial DESC LIMIT ?"
)
# The first serial whose `high_at` is no less than :time, or head + 1. Serials have no gaps and
# `high_at` rises with them, so halving finds it with a few reads of the index by serial; an index
# by time would have to be written with every message.
_FIRST_AT = """
WITH RECURSIVE span (low, high) AS (
    SELECT :first, :head + 1
    UNION ALL
    SELECT CASE WHEN high_at >= :time THEN low ELSE serial + 1 END,
           CASE WHEN high_at >= :time THEN serial ELSE high END
    FROM span JOIN messages ON channel_id = :channel_id AND serial = (low + high) / 2
    WHERE low < high
)
SELECT low FROM span WHERE low = high
"""


class Reads(AdministrationReads):
    def __init__(self, connection: sqlite3.Connection, page_bytes: int) -> None:
        self._sql = connection
        self._page_bytes = page_bytes

    # -- messages -----------------------------------------------------------------------------

    def read_head(self, hub: str, channel: str) -> ChannelHead | None:
        return self._channel(hub, channel)[1]

    def _channel(self, hub: str, channel: str) -> tuple[int, ChannelHead | None]:
        row = self._sql.execute(
            "SELECT id, epoch, head, first_serial FROM channels WHERE hub = ? AND name = ?",
            (hub, channel),
        ).fetchone()
        return (0, None) if row is None else (row[0], ChannelHead(*row[1:]))

    def read_after(self, hub: str, channel: str, serial: int, limit: int) -> StoredPage:
        channel_id, head = self._channel(hub, channel)
        rows = self._sql.execute(_AFTER, (channel_id, serial, limit + 1))
        return self._page(rows, hub, channel, limit, head)

    def read_before(self, hub: str, channel: str, serial: int | None, limit: int) -> StoredPage:
        channel_id, head = self._channel(hub, channel)
        end = serial if serial is not None else (head.head + 1 if head else 0)
        rows = self._sql.execute(_BEFORE, (channel_id, end, limit + 1))
        return self._page(rows, hub, channel, limit, head, newest_first=True)

    def read_after_time(self, hub: str, channel: str, time: int, limit: int) -> StoredPage:
        """The first message later than `time` is also the first whose `high_at` is; from there
        on, only those published under a clock that was set back have to be left out."""
        channel_id, head = self._channel(hub, channel)
        start = self._first_at(channel_id, head, time + 1)
        rows = self._sql.execute(_AFTER_TIME, (channel_id, start, time, limit + 1))
        return self._page(rows, hub, channel, limit, head)

    def read_before_time(self, hub: str, channel: str, time: int, limit: int) -> StoredPage:
        """Everything before the first message whose `high_at` reaches `time` qualifies; behind
        it, only messages published under a clock that was set back, which have an index."""
        channel_id, head = self._channel(hub, channel)
        boundary = self._first_at(channel_id, head, time)
        rows = self._sql.execute(
            _LATE_BEFORE_TIME, (channel_id, boundary, time, limit + 1)
        ).fetchall()
        if len(rows) <= limit:
            rows += self._sql.execute(_BEFORE, (channel_id, boundary, limit + 1 - len(rows)))
        return self._page(rows, hub, channel, limit, head, newest_first=True)

    def _first_at(self, channel_id: int, head: ChannelHead | None, time: int) -> int:
        if head is None:
            return 0
        parameters = {"channel_id": channel_id, "time": time}
        parameters |= {"first": head.first, "head": head.head}
        (serial,) = self._sql.execute(_FIRST_AT, parameters).fetchone()
        return int(serial)

    def _page(
        self,
        rows: Iterable[Row],
        hub: str,
        channel: str,
        limit: int,
        head: ChannelHead | None,
        newest_first: bool = False,
    ) -> StoredPage:
        """At most `limit` messages and, after the first, about `page_bytes` of payload."""
        messages: list[Message] = []
        room = self._page_bytes
        more = False
        for row in rows:
            if len(messages) >= limit or room <= 0:
                more = True
                break
            messages.append(from_row(row, hub, channel))
            room -= len(messages[-1].payload)
        if newest_first:
            messages.reverse()
        return StoredPage(tuple(messages), more, head)

    def stored_bytes(self, hub: str) -> int:
        row = self._sql.execute(
            "SELECT stored_bytes FROM hub_usage WHERE hub = ?", (hub,)
        ).fetchone()
        return 0 if row is None else int(row[0])

    def read_retained(self, hub: str, channel: str, now: int) -> Retained | None:
        row = self._sql.execute(
            "SELECT message, expires_at FROM retained"
            " WHERE hub = ? AND channel = ? AND expires_at > ?",
            (hub, channel, now),
        ).fetchone()
        return None if row is None else Retained(from_blob(row[0]), row[1])

    # -- the rest -----------------------------------------------------------------------------

    def read_settings(self, hub: str | None) -> list[SettingsEntry]:
        rows = self._sql.execute(
            "SELECT kind, hub, name, value, version FROM settings"
            " WHERE ?1 IS NULL OR hub = ?1 ORDER BY kind, hub, name",
            (hub,),
        )
        return [SettingsEntry(*row) for row in rows]

    def read_session(self, key_hash: bytes, now: int) -> SessionSnapshot | None:
        row = self._sql.execute(
            "SELECT key_hash, hub, session_id, state, expires_at FROM sessions"
            " WHERE key_hash = ? AND expires_at > ?",
            (key_hash, now),
        ).fetchone()
        return None if row is None else SessionSnapshot(*row)

    def read_push_tokens(self, hub: str, user_id: str) -> list[PushToken]:
        rows = self._sql.execute(
            "SELECT hub, user_id, platform, token FROM push_tokens"
            " WHERE hub = ? AND user_id = ? ORDER BY platform, token",
            (hub, user_id),
        )
        return [PushToken(*row) for row in rows]
