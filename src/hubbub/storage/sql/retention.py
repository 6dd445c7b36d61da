"""Deletes a channel's oldest messages, and finds out which these are."""

from __future__ import annotations

from collections.abc import Sequence

from hubbub.domain.messages import ERASED_CONTENT_TYPE, ERASED_PAYLOAD
from hubbub.domain.topics import ErasedMessages
from hubbub.ports.storage.messages import Deleted, MessagesOfUser, StoredChannel
from hubbub.storage.sql.communication import LOG, delete_from_log, erase_from_log
from hubbub.storage.sql.connection import Row, Sql, single_statement
from hubbub.storage.sql.records import ENVELOPE_SIZE, ERASED_SIZE
from hubbub.storage.sql.restoring import LIVE
from hubbub.storage.sql.search import delete_texts_before, erase_texts
from hubbub.storage.sql.thread_erasure import erase_from_threads
from hubbub.storage.sql.threads import delete_from_threads
from hubbub.storage.sql.topics import keep_sequences
from hubbub.storage.sql.usage import check_term, count_bytes

_SUMMED_ROWS = 10_000

_STORED_CHANNELS = """
SELECT name, epoch, head, first_serial, messages.high_at, stored_bytes, channels.high_at
FROM channels JOIN messages ON channel_id = channels.id AND serial = first_serial
WHERE hub = $1 AND first_serial <= head AND name
"""
_READ_CHANNELS = f"{_STORED_CHANNELS} > $2 ORDER BY name LIMIT $3"
_READ_CHANNELS_BACKWARDS = f"{_STORED_CHANNELS} < $2 ORDER BY name DESC LIMIT $3"
_READ_CHANNELS_NAMED = f"{_STORED_CHANNELS} = ANY($2)"
# The last message that has to go so that so many bytes are freed, if it is among these.
_FREEING = """
SELECT serial FROM (
    SELECT serial, sum(length(payload)) OVER (ORDER BY serial) AS freed FROM messages
    WHERE channel_id = $1 AND serial >= $2 AND serial < $3
) AS summed WHERE freed >= $4 ORDER BY serial LIMIT 1
"""


# Channels with messages that were not looked through yet.
_SEARCHED = """
SELECT id, name, first_serial, head FROM channels
WHERE hub = $1 AND name >= $2 AND first_serial <= head AND (name > $2 OR head > $3)
ORDER BY name LIMIT $4
"""
_SEARCHED_CHANNELS = 1000
_ALL = 2**63 - 1
"""In place of the head, which grows: a search must terminate."""
# Channel by channel: for a join PostgreSQL would look through all messages of all hubs.
_COUNTED = """
SELECT name, (
    SELECT count(*) FROM messages WHERE channel_id = channels.id
    AND serial >= channels.first_serial AND serial <= channels.head AND publisher = $4
) FROM channels WHERE hub = $1 AND name >= $2 AND name <= $3
"""
_PUBLISHED = (
    "FROM messages WHERE channel_id = $1 AND serial > $2 AND serial <= $3 AND publisher = $4"
)
_ERASED = (
    "WHERE channel_id = $1 AND serial > $2 AND serial <= $3"
    " AND (publisher = $4 OR serial = ANY($5))"
)
_ERASE = (
    "UPDATE messages SET publisher = NULL, attributes = NULL, content_type = $6, payload = $7"  # noqa: S608
    f" {_ERASED}"
)


_STORED_HUBS = f"""
SELECT hub FROM hub_usage WHERE {LIVE}
AND (
    EXISTS (SELECT 1 FROM channels WHERE channels.hub = hub_usage.hub)
    OR EXISTS (SELECT 1 FROM documents WHERE documents.hub = hub_usage.hub)
) ORDER BY hub
"""  # noqa: S608 - names only


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
        """Deletes at most `limit` messages, oldest first."""
        for channel_id, head, first in await self._lock(hub, channel, partition, term):
            end = min(serial, head + 1, first + limit)
            if spare_unread:
                end = min(end, await self._first_unread(hub, channel, end))
            if end > first:
                await delete_from_log(self._sql, hub, channel, end)
                return await self._delete_range(hub, channel_id, end)
            return Deleted(0, 0, first)
        return Deleted(0, 0, 1)

    async def _lock(self, hub: str, channel: str, partition: int, term: int) -> Sequence[Row]:
        """Id, head and first serial of the channel; empty if it does not exist. Raises
        `StaleOwner`."""
        await check_term(self._sql, partition, term)
        return await self._sql.fetch(
            "SELECT id, head, first_serial FROM channels WHERE hub = $1 AND name = $2 FOR UPDATE",
            hub,
            channel,
        )

    async def _first_unread(self, hub: str, channel: str, otherwise: int) -> int:
        ((floor,),) = await self._sql.fetch(
            "SELECT min(floor) FROM cursors WHERE hub = $1 AND channel = $2", hub, channel
        )
        return otherwise if floor is None else int(floor) + 1

    async def _delete_range(self, hub: str, channel_id: int, end: int) -> Deleted:
        ((freed, others),) = await self._sql.fetch(
            f"SELECT coalesce(sum(length(payload)), 0), coalesce(sum({ENVELOPE_SIZE}), 0)"  # noqa: S608
            " FROM messages WHERE channel_id = $1 AND serial < $2",
            channel_id,
            end,
        )
        await keep_sequences(self._sql, channel_id, end)
        await delete_from_threads(self._sql, channel_id, end)
        words = await delete_texts_before(self._sql, channel_id, end)
        deleted = await self._sql.execute(
            "DELETE FROM messages WHERE channel_id = $1 AND serial < $2", channel_id, end
        )
        await self._sql.execute(
            "UPDATE channels SET first_serial = $2, stored_bytes = stored_bytes - $3,"
            " threaded = CASE WHEN threaded < $2 THEN $2 - 1 ELSE threaded END,"
            " searched = CASE WHEN searched < $2 THEN $2 - 1 ELSE searched END WHERE id = $1",
            channel_id,
            end,
            freed,
        )
        await count_bytes(self._sql, {hub: -int(freed)}, {hub: -int(others) - words})
        return Deleted(deleted, int(freed), end)

    async def erase_messages(
        self,
        hub: str,
        channel: str,
        user_id: str,
        after: int,
        most: int,
        partition: int,
        term: int,
    ) -> ErasedMessages:
        for channel_id, head, first in await self._lock(hub, channel, partition, term):
            start = max(after, first - 1)
            end = min(start + most, head)
            concerned: list[int] = []
            if channel == LOG:
                concerned = await erase_from_log(self._sql, hub, channel_id, user_id, start, end)
            which = (channel_id, start, end, user_id, concerned)
            ((count, size, others),) = await self._sql.fetch(
                "SELECT count(*), coalesce(sum(length(payload)), 0),"  # noqa: S608
                f" coalesce(sum({ERASED_SIZE}), 0) FROM messages {_ERASED}",
                *which,
            )
            if count:
                await erase_from_threads(self._sql, *which)
                words = await erase_texts(self._sql, *which)
                await self._sql.execute(_ERASE, *which, ERASED_CONTENT_TYPE, ERASED_PAYLOAD)
                added = count * len(ERASED_PAYLOAD) - int(size)
                await self._sql.execute(
                    "UPDATE channels SET stored_bytes = stored_bytes + $2 WHERE id = $1",
                    channel_id,
                    added,
                )
                left = count * len(ERASED_CONTENT_TYPE) - int(others) - words
                await count_bytes(self._sql, {hub: added}, {hub: left})
            return ErasedMessages(count, end, end < head)
        return ErasedMessages(0, after, False)


class RetentionReads:
    """Part of `Reads`."""

    _sql: Sql

    async def find_published(
        self, hub: str, user_id: str, channel: str, after: int, most: int
    ) -> MessagesOfUser:
        """Examines at most `most` messages: those after `after` in the channel, then those of later
        channels. There is no index of publishers, since every stored message would pay for it."""
        rows = await self._sql.fetch(_SEARCHED, hub, channel, after, _SEARCHED_CHANNELS)
        if not rows:
            return MessagesOfUser({}, channel, after, False)
        channel_id, name, first, head = rows[0]
        begun = name == channel and after >= first
        if begun or head - first >= most:
            start = after if begun else first - 1
            end = min(start + most, head)
            ((count,),) = await self._sql.fetch(
                f"SELECT count(*) {_PUBLISHED}", channel_id, start, end, user_id
            )
            return MessagesOfUser(
                {name: count} if count else {}, name, end if end < head else _ALL, True
            )
        last, size = rows[0], 0
        for row in rows:
            size += row[3] - row[2] + 1
            if size > most:
                break
            last = row
        counts = await self._sql.fetch(_COUNTED, hub, name, last[1], user_id)
        found = {channel: count for channel, count in counts if count}
        return MessagesOfUser(found, last[1], _ALL, True)

    @single_statement
    async def read_stored_hubs(self) -> list[str]:
        rows = await self._sql.fetch(_STORED_HUBS)
        return [hub for (hub,) in rows]

    @single_statement
    async def read_channels(
        self, hub: str, after: str, limit: int, backwards: bool = False
    ) -> list[StoredChannel]:
        question = _READ_CHANNELS_BACKWARDS if backwards else _READ_CHANNELS
        rows = await self._sql.fetch(question, hub, after, limit)
        return [StoredChannel(hub, *row) for row in rows]

    @single_statement
    async def read_channels_named(self, hub: str, names: Sequence[str]) -> list[StoredChannel]:
        rows = await self._sql.fetch(_READ_CHANNELS_NAMED, hub, list(names))
        return [StoredChannel(hub, *row) for row in rows]

    async def first_within(self, hub: str, channel: str, most_bytes: int) -> int:
        """Adds up sizes from the oldest message, so that the cost is proportional to what is
        deleted."""
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
