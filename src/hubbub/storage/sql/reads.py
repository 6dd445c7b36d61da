"""All reads of a store, run in a transaction opened by the caller, so that a result from several
statements comes from one snapshot."""

from __future__ import annotations

from collections.abc import Sequence

from hubbub.ports.storage.messages import ChannelHead, Retained, StoredPage
from hubbub.ports.storage.sessions import SessionSnapshot
from hubbub.ports.storage.settings import SettingsEntry
from hubbub.storage.sql.administration import AdministrationReads
from hubbub.storage.sql.channels import FIRST_AT, read_channel, stored_page
from hubbub.storage.sql.commands import CommandReads
from hubbub.storage.sql.communication import CommunicationReads
from hubbub.storage.sql.connection import Sql, single_statement
from hubbub.storage.sql.documents import DocumentReads
from hubbub.storage.sql.erasure import ErasureReads
from hubbub.storage.sql.exports import ExportReads
from hubbub.storage.sql.metering import MeteringReads
from hubbub.storage.sql.notifications import NotificationReads
from hubbub.storage.sql.push import PushReads
from hubbub.storage.sql.records import MESSAGE_COLUMNS, MESSAGE_SIZE, from_blob
from hubbub.storage.sql.restoring import LIVE, RestoreReads
from hubbub.storage.sql.retention import RetentionReads
from hubbub.storage.sql.search import SearchReads
from hubbub.storage.sql.threads import ThreadReads
from hubbub.storage.sql.topics import TopicReads
from hubbub.storage.sql.usage import USED_BYTES
from hubbub.storage.sql.webhooks import WebhookReads

# Table and column names only; every value is a parameter.
_SELECT = f"SELECT {MESSAGE_COLUMNS}, {MESSAGE_SIZE} FROM messages WHERE channel_id = $1"  # noqa: S608
_AFTER = f"{_SELECT} AND serial > $2 ORDER BY serial LIMIT $3"
_BEFORE = f"{_SELECT} AND serial < $2 ORDER BY serial DESC LIMIT $3"
_AFTER_TIME = f"{_SELECT} AND published_at > $2 AND serial > $3 ORDER BY serial LIMIT $4"
_LATE_BEFORE_TIME = (
    f"{_SELECT} AND serial >= $2 AND published_at < high_at AND published_at < $3"
    " AND serial < $4 ORDER BY serial DESC LIMIT $5"
)
_BEHIND_ALL = 2**63 - 1
_MEASURE = f"""
SELECT count(*), COALESCE(sum(size), 0) FROM (
    SELECT {MESSAGE_SIZE} FROM messages
    WHERE channel_id = (SELECT id FROM channels WHERE hub = $1 AND name = $2)
    ORDER BY serial DESC LIMIT $3
) AS newest
"""  # noqa: S608 - column names only


class Reads(
    RetentionReads,
    ErasureReads,
    ThreadReads,
    SearchReads,
    TopicReads,
    DocumentReads,
    NotificationReads,
    WebhookReads,
    PushReads,
    CommandReads,
    CommunicationReads,
    ExportReads,
    AdministrationReads,
    RestoreReads,
    MeteringReads,
):
    def __init__(self, sql: Sql, page_bytes: int) -> None:
        self._sql = sql
        self._page_bytes = page_bytes

    # -- ownership ----------------------------------------------------------------------------

    @single_statement
    async def read_terms(self, partitions: Sequence[int]) -> dict[int, int]:
        rows = await self._sql.fetch(
            "SELECT partition_id, term FROM partitions WHERE partition_id = ANY($1)",
            list(partitions),
        )
        return dict(rows)

    # -- messages -----------------------------------------------------------------------------

    @single_statement
    async def read_head(self, hub: str, channel: str) -> ChannelHead | None:
        return (await read_channel(self._sql, hub, channel))[1]

    async def read_after(self, hub: str, channel: str, serial: int, limit: int) -> StoredPage:
        channel_id, head = await read_channel(self._sql, hub, channel)
        page = self._page(limit)
        await self._fill(page, _AFTER, channel_id, start=serial)
        return stored_page(page, hub, channel, head)

    async def read_before(
        self, hub: str, channel: str, serial: int | None, limit: int
    ) -> StoredPage:
        channel_id, head = await read_channel(self._sql, hub, channel)
        page = self._page(limit)
        await self._fill(page, _BEFORE, channel_id, start=_BEHIND_ALL if serial is None else serial)
        return stored_page(page, hub, channel, head)

    async def read_after_time(self, hub: str, channel: str, time: int, limit: int) -> StoredPage:
        """The first message later than `time` is also the first whose `high_at` is; after it, only
        messages published under a clock that was set back must be skipped."""
        channel_id, head = await read_channel(self._sql, hub, channel)
        first = await self._first_at(channel_id, head, time + 1)
        page = self._page(limit)
        await self._fill(page, _AFTER_TIME, channel_id, time, start=first - 1)
        return stored_page(page, hub, channel, head)

    async def read_before_time(self, hub: str, channel: str, time: int, limit: int) -> StoredPage:
        """Everything before the first message whose `high_at` reaches `time` qualifies; after it,
        only messages published under a clock that was set back, for which there is an index."""
        channel_id, head = await read_channel(self._sql, hub, channel)
        boundary = await self._first_at(channel_id, head, time)
        page = self._page(limit)
        await self._fill(page, _LATE_BEFORE_TIME, channel_id, boundary, time, start=_BEHIND_ALL)
        if not page.more:
            await self._fill(page, _BEFORE, channel_id, start=boundary)
        return stored_page(page, hub, channel, head)

    async def _first_at(self, channel_id: int, head: ChannelHead | None, time: int) -> int:
        if head is None:
            return 0
        ((serial,),) = await self._sql.fetch(FIRST_AT, channel_id, head.first, head.head, time)
        return int(serial)

    async def first_at(self, hub: str, channel: str, time: int) -> int:
        return max(1, await self._first_at(*await read_channel(self._sql, hub, channel), time))

    @single_statement
    async def stored_bytes(self, hub: str) -> int:
        rows = await self._sql.fetch("SELECT stored_bytes FROM hub_usage WHERE hub = $1", hub)
        return int(rows[0][0]) if rows else 0

    @single_statement
    async def used_bytes(self, hub: str) -> int:
        rows = await self._sql.fetch(USED_BYTES, hub)
        return int(rows[0][0]) if rows else 0

    @single_statement
    async def measure(self, hub: str, channel: str, limit: int) -> tuple[int, int]:
        ((count, size),) = await self._sql.fetch(_MEASURE, hub, channel, limit)
        return int(count), int(size)

    @single_statement
    async def read_retained(self, hub: str, channel: str, now: int) -> Retained | None:
        rows = await self._sql.fetch(
            "SELECT message, expires_at FROM retained"
            " WHERE hub = $1 AND channel = $2 AND expires_at > $3",
            hub,
            channel,
            now,
        )
        return Retained(from_blob(rows[0][0]), rows[0][1]) if rows else None

    @single_statement
    async def read_retained_channels(self, hub: str, after: str, now: int, most: int) -> list[str]:
        rows = await self._sql.fetch(
            "SELECT channel FROM retained"
            " WHERE hub = $1 AND channel >= $2 AND expires_at > $3"
            " ORDER BY channel LIMIT $4",
            hub,
            after,
            now,
            most,
        )
        return [row[0] for row in rows]

    # -- the rest -----------------------------------------------------------------------------

    @single_statement
    async def read_settings(self, hub: str | None = None) -> list[SettingsEntry]:
        columns = "SELECT kind, hub, name, value, version FROM settings"
        order = "ORDER BY kind, hub, name"
        if hub is None:
            rows = await self._sql.fetch(f"{columns} WHERE {LIVE} {order}")
        else:
            rows = await self._sql.fetch(f"{columns} WHERE hub = $1 {order}", hub)
        return [SettingsEntry(*row) for row in rows]

    @single_statement
    async def read_named_settings(
        self, hub: str, kind: str, names: Sequence[str]
    ) -> list[SettingsEntry]:
        rows = await self._sql.fetch(
            "SELECT kind, hub, name, value, version FROM settings"
            " WHERE hub = $1 AND kind = $2 AND name = ANY($3) ORDER BY name",
            hub,
            kind,
            list(names),
        )
        return [SettingsEntry(*row) for row in rows]

    @single_statement
    async def read_session(self, key_hash: bytes, now: int) -> SessionSnapshot | None:
        rows = await self._sql.fetch(
            "SELECT key_hash, hub, session_id, state, expires_at, sessions.holder FROM sessions"
            " LEFT JOIN session_holders ON session_holders.holder = sessions.holder"
            " WHERE key_hash = $1 AND (expires_at > $2 OR held_until > $2)",
            key_hash,
            now,
        )
        return SessionSnapshot(*rows[0]) if rows else None

    @single_statement
    async def count_sessions(self, hub: str, start: str) -> int:
        ((count,),) = await self._sql.fetch(
            "SELECT count(*) FROM sessions WHERE hub = $1 AND session_id >= $2 AND session_id < $3",
            hub,
            start,
            start + "\x7f",
        )
        return int(count)
