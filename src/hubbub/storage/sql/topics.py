"""SQL for producers and durable subscriptions."""

from __future__ import annotations

import msgspec

from hubbub.domain.errors import QuotaExceeded
from hubbub.domain.messages import Message
from hubbub.ports.storage.messages import ChannelHead
from hubbub.ports.storage.topics import ProducerRecord, SavedCursor
from hubbub.storage.sql.connection import Sql, holds, put, single_statement
from hubbub.storage.sql.records import MESSAGE_COLUMNS, from_row
from hubbub.storage.sql.restoring import live
from hubbub.storage.sql.usage import check_term

_OPEN_PRODUCER = (
    "INSERT INTO producers (hub, channel, principal, producer, fence, sequence)"
    " VALUES ($1, $2, $3, $4, $5, 0) ON CONFLICT (hub, channel, principal, producer)"
    " DO UPDATE SET fence = producers.fence + excluded.fence RETURNING id, fence, sequence"
)
_FIND_PRODUCER = (
    "SELECT id, fence, sequence FROM producers"
    " WHERE hub = $1 AND channel = $2 AND principal = $3 AND producer = $4"
)
_COUNT_PRODUCERS = (
    "SELECT count(*) FROM producers WHERE hub = $1 AND channel = $2 AND principal = $3"
)
_PUT_CURSOR = put("cursors", SavedCursor.__struct_fields__, "hub", "channel", "owner", "name")
_READ_CURSORS = "SELECT hub, channel, owner, name, floor, state FROM cursors WHERE hub = $1"
_READ_CURSOR_PAGE = f"""
SELECT cursors.hub, channel, owner, cursors.name, floor, state, epoch, head, first_serial
FROM cursors LEFT JOIN channels ON channels.hub = cursors.hub AND channels.name = channel
WHERE (cursors.hub, channel, owner, cursors.name) > ($1, $2, $3, $4) AND {live("cursors.hub")}
ORDER BY cursors.hub, channel, owner, cursors.name LIMIT $5
"""  # noqa: S608
_READ_PUT = (
    f"SELECT {MESSAGE_COLUMNS} FROM messages"  # noqa: S608 - column names only
    " WHERE producer_id = $1 AND sequence = $2"
)
# What is about to be deleted must not be forgotten.
_KEEP_SEQUENCES = """
UPDATE producers SET sequence = gone.last FROM (
    SELECT producer_id, max(sequence) AS last FROM messages
    WHERE channel_id = $1 AND serial < $2 AND producer_id IS NOT NULL GROUP BY producer_id
) AS gone
WHERE producers.id = gone.producer_id AND producers.sequence < gone.last
"""


async def keep_sequences(sql: Sql, channel_id: int, end: int) -> None:
    """Saves producers' sequence numbers before messages with a serial less than `end` are
    deleted."""
    await sql.execute(_KEEP_SEQUENCES, channel_id, end)


async def _with_last(sql: Sql, producer_id: int, fence: int, kept: int) -> ProducerRecord:
    ((last, changed),) = await sql.fetch(
        "SELECT (SELECT coalesce(max(sequence), 0) FROM messages WHERE producer_id = $1),"
        " (SELECT coalesce(max(sequence), 0) FROM document_puts WHERE producer_id = $1)",
        producer_id,
    )
    return ProducerRecord(producer_id, fence, max(kept, last, changed))


class TopicWrites:
    """Part of `Writes`; runs in its transactions."""

    _sql: Sql

    async def open_producer(
        self,
        hub: str,
        channel: str,
        principal: str,
        producer: str,
        partition: int,
        term: int,
        take_over: bool,
        at_most: int,
    ) -> ProducerRecord:
        await check_term(self._sql, partition, term)
        which = (hub, channel, principal, producer)
        # A producer that is only looked up is not written: a full disk must not keep a repeated
        # put from its answer.
        found = await self._sql.fetch(_FIND_PRODUCER, *which)
        if not found:
            ((there,),) = await self._sql.fetch(_COUNT_PRODUCERS, hub, channel, principal)
            if there >= at_most:
                raise QuotaExceeded(
                    f"there are {at_most} producers of one user on topic {channel!r}, as many as "
                    "there may be; use one of them again"
                )
        if not found or take_over:
            found = await self._sql.fetch(_OPEN_PRODUCER, *which, int(take_over))
        ((producer_id, fence, kept),) = found
        return await _with_last(self._sql, producer_id, fence, kept)

    async def save_cursor(self, cursor: SavedCursor, partition: int, term: int) -> None:
        await check_term(self._sql, partition, term)
        await self._sql.execute(_PUT_CURSOR, *msgspec.structs.astuple(cursor))

    async def delete_cursor(
        self, hub: str, channel: str, owner: str, name: str, partition: int, term: int
    ) -> bool:
        await check_term(self._sql, partition, term)
        which = "cursors WHERE hub = $1 AND channel = $2 AND owner = $3 AND name = $4"
        return await self._sql.execute(f"DELETE FROM {which}", hub, channel, owner, name) > 0  # noqa: S608


class TopicReads:
    """Part of `Reads`."""

    _sql: Sql

    async def read_producer(
        self, hub: str, channel: str, principal: str, producer: str
    ) -> ProducerRecord | None:
        rows = await self._sql.fetch(_FIND_PRODUCER, hub, channel, principal, producer)
        return await _with_last(self._sql, *rows[0]) if rows else None

    @single_statement
    async def read_put(
        self, producer_id: int, sequence: int, hub: str, channel: str
    ) -> Message | None:
        rows = await self._sql.fetch(_READ_PUT, producer_id, sequence)
        return from_row(rows[0], hub, channel) if rows else None

    @single_statement
    async def read_cursors(
        self,
        hub: str,
        channel: str | None = None,
        owner: str | None = None,
        after: tuple[str, str, str] | None = None,
        limit: int | None = None,
        text: str = "",
    ) -> list[SavedCursor]:
        tests, values = _which_cursors(hub, channel, owner, text)
        if after is not None:
            places = ", ".join(f"${len(values) + n}" for n in (1, 2, 3))
            tests += f" AND (channel, owner, name) > ({places})"
            values += after
        statement = f"{_READ_CURSORS}{tests} ORDER BY channel, owner, name"
        if limit is not None:
            values.append(limit)
            statement += f" LIMIT ${len(values)}"
        return [SavedCursor(*row) for row in await self._sql.fetch(statement, *values)]

    @single_statement
    async def count_cursors(
        self, hub: str, channel: str | None = None, owner: str | None = None, text: str = ""
    ) -> int:
        tests, values = _which_cursors(hub, channel, owner, text)
        statement = f"SELECT count(*) FROM cursors WHERE hub = $1{tests}"  # noqa: S608 - columns
        ((count,),) = await self._sql.fetch(statement, *values)
        return int(count)

    @single_statement
    async def read_cursor_page(
        self, after: tuple[str, str, str, str] | None, limit: int
    ) -> list[tuple[SavedCursor, ChannelHead | None]]:
        rows = await self._sql.fetch(_READ_CURSOR_PAGE, *(after or ("", "", "", "")), limit)
        return [
            (SavedCursor(*row[:6]), ChannelHead(*row[6:]) if row[6] is not None else None)
            for row in rows
        ]


def _which_cursors(
    hub: str, channel: str | None, owner: str | None, text: str
) -> tuple[str, list[object]]:
    """The conditions after `hub = $1`, and all parameters."""
    wanted = {"channel": channel, "owner": owner}
    given = {column: value for column, value in wanted.items() if value is not None}
    tests = "".join(f" AND {column} = ${n}" for n, column in enumerate(given, 2))
    values: list[object] = [hub, *given.values()]
    if text:
        values.append(text)
        tests += f" AND ({holds(('channel', 'owner', 'name'), len(values))})"
    return tests, values
