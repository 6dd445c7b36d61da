"""Deleting a channel's oldest messages, and finding out which these are."""

from __future__ import annotations

from hubbub.ports.storage.messages import Deleted, StoredChannel
from hubbub.storage.sql.connection import Sql, single_statement
from hubbub.storage.sql.threads import delete_from_threads
from hubbub.storage.sql.topics import keep_sequences
from hubbub.storage.sql.usage import check_term, count_bytes

_SUMMED_ROWS = 10_000

_READ_CHANNELS = """
SELECT name, epoch, head, first_serial, messages.high_at, stored_bytes
FROM channels JOIN messages ON channel_id = channels.id AND serial = first_serial
WHERE hub = $1 AND name > $2 AND first_serial <= head ORDER BY name LIMIT $3
"""
# The last message that has to go so that so many bytes are freed, if it is among these.
_FREEING = """
SELECT serial FROM (
    SELECT serial, sum(length(payload)) OVER (ORDER BY serial) AS freed FROM messages
    WHERE channel_id = $1 AND serial >= $2 AND serial < $3
) AS summed WHERE freed >= $4 ORDER BY serial LIMIT 1
"""


class RetentionWrites:
    """Part of `Writes`; runs in its transactions."""

    _sql: Sql

    async def delete_before(
        self,
        hub: str,
        channel: str,
        serial: int,
        partition: int,
        term: int,
        spare_unread: bool,
        limit: int,
    ) -> Deleted:
        """Drop at most `limit` messages, the oldest first."""
        await check_term(self._sql, partition, term)
        found = await self._sql.fetch(
            "SELECT id, head, first_serial FROM channels WHERE hub = $1 AND name = $2 FOR UPDATE",
            hub,
            channel,
        )
        for channel_id, head, first in found:
            end = min(serial, head + 1, first + limit)
            if spare_unread:
                end = min(end, await self._first_unread(hub, channel, end))
            if end > first:
                return await self._delete_range(hub, channel_id, end)
            return Deleted(0, 0, first)
        return Deleted(0, 0, 1)

    async def _first_unread(self, hub: str, channel: str, otherwise: int) -> int:
        ((floor,),) = await self._sql.fetch(
            "SELECT min(floor) FROM cursors WHERE hub = $1 AND channel = $2", hub, channel
        )
        return otherwise if floor is None else int(floor) + 1

    async def _delete_range(self, hub: str, channel_id: int, end: int) -> Deleted:
        ((freed,),) = await self._sql.fetch(
            "SELECT coalesce(sum(length(payload)), 0) FROM messages"
            " WHERE channel_id = $1 AND serial < $2",
            channel_id,
            end,
        )
        await keep_sequences(self._sql, channel_id, end)
        await delete_from_threads(self._sql, channel_id, end)
        deleted = await self._sql.execute(
            "DELETE FROM messages WHERE channel_id = $1 AND serial < $2", channel_id, end
        )
        await self._sql.execute(
            "UPDATE channels SET first_serial = $2, stored_bytes = stored_bytes - $3,"
            " threaded = CASE WHEN threaded < $2 THEN $2 - 1 ELSE threaded END WHERE id = $1",
            channel_id,
            end,
            freed,
        )
        await count_bytes(self._sql, {hub: -freed})
        return Deleted(deleted, freed, end)


class RetentionReads:
    """Part of `Reads`."""

    _sql: Sql

    @single_statement
    async def read_stored_hubs(self) -> list[str]:
        rows = await self._sql.fetch("SELECT hub FROM hub_usage ORDER BY hub")
        return [hub for (hub,) in rows]

    @single_statement
    async def read_channels(self, hub: str, after: str, limit: int) -> list[StoredChannel]:
        rows = await self._sql.fetch(_READ_CHANNELS, hub, after, limit)
        return [StoredChannel(hub, *row) for row in rows]

    async def first_within(self, hub: str, channel: str, most_bytes: int) -> int:
        """Summed up from the oldest message, so that it costs what it is going to delete."""
        rows = await self._sql.fetch(
            "SELECT id, head, first_serial, stored_bytes FROM channels"
            " WHERE hub = $1 AND name = $2",
            hub,
            channel,
        )
        for channel_id, head, first, stored in rows:
            if stored <= most_bytes:
                return int(first)
            end = min(head + 1, first + _SUMMED_ROWS)
            found = await self._sql.fetch(_FREEING, channel_id, first, end, stored - most_bytes)
            return int(found[0][0]) + 1 if found else int(end)
        return 1
