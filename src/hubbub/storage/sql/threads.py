"""SQL for conversations of channels: index rows of appended and deleted messages, and pages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass

from hubbub.domain.messages import Message
from hubbub.domain.threads import Thread, ThreadsQuery, is_state, status_of
from hubbub.ports.storage.messages import StoredPage
from hubbub.ports.storage.threads import StoredThreads
from hubbub.storage.sql.channels import read_channel, stored_page
from hubbub.storage.sql.connection import (
    ManyRows,
    Row,
    Sql,
    insert,
    rows_of,
    single_statement,
)
from hubbub.storage.sql.pages import Pages
from hubbub.storage.sql.records import (
    MESSAGE_COLUMNS,
    MESSAGE_SIZE,
    attributes_of,
    from_row,
)
from hubbub.storage.sql.usage import check_term

_INSERT_MESSAGES = insert(
    "thread_messages", {"channel_id": "bigint", "conversation": "text", "serial": "bigint"}
)
_CONTINUE = insert(
    "threads",
    {
        "channel_id": "bigint",
        "conversation": "text",
        "first_serial": "bigint",
        "last_serial": "bigint",
        "message_count": "bigint",
        "updated_at": "bigint",
        "state_serial": "bigint",
        "status": "text",
    },
    "ON CONFLICT (channel_id, conversation) DO UPDATE SET last_serial = excluded.last_serial,"
    " message_count = threads.message_count + excluded.message_count,"
    " updated_at = excluded.updated_at,"
    " state_serial = COALESCE(excluded.state_serial, threads.state_serial),"
    " status = CASE WHEN excluded.state_serial IS NULL THEN threads.status"
    " ELSE excluded.status END",
)
FIRST_LEFT = (
    "SELECT min(serial) FROM thread_messages WHERE thread_messages.channel_id = threads.channel_id"
    " AND thread_messages.conversation = threads.conversation"
)
_SHORTENED = {"channel_id": "bigint", "conversation": "text", "gone": "bigint", "before": "bigint"}
_SHORTEN = ManyRows(
    table="threads",
    single=f"UPDATE threads SET first_serial = ({FIRST_LEFT}),"  # noqa: S608 - names only
    " message_count = message_count - $3,"
    " status = CASE WHEN state_serial < $4 THEN NULL ELSE status END"
    " WHERE channel_id = $1 AND conversation = $2",
    arrays=f"UPDATE threads SET first_serial = ({FIRST_LEFT}),"  # noqa: S608 - names only
    " message_count = message_count - item.gone,"
    " status = CASE WHEN state_serial < item.before THEN NULL ELSE status END"
    f" FROM {rows_of(_SHORTENED)}"
    " WHERE threads.channel_id = item.channel_id AND threads.conversation = item.conversation",
)
_GOING = (
    "thread_messages WHERE channel_id = $1 AND serial < $2 AND conversation IN"
    " (SELECT conversation FROM threads WHERE channel_id = $1 AND first_serial < $2)"
)
# An earlier version of Hubbub appends without raising `threaded`, and deletes messages without
# their entries in the index.
_BEHIND = """
SELECT 1 FROM channels WHERE hub = $1 AND name = $2 AND (threaded < head OR EXISTS (
    SELECT 1 FROM threads
    WHERE channel_id = channels.id AND threads.first_serial < channels.first_serial
))
"""
# Payloads are read only of the messages that set a status.
_UNINDEXED = """
SELECT serial, published_at, event, content_type, attributes,
       CASE WHEN lower(event) = 'hconvstate' THEN payload END
FROM messages WHERE channel_id = $1 AND serial > $2 ORDER BY serial LIMIT $3
"""

# Table and column names only; every value is a parameter.
_THREADS = (
    f"SELECT {MESSAGE_COLUMNS}, conversation, message_count, last_serial, updated_at, status,"  # noqa: S608
    f" {MESSAGE_SIZE} FROM threads JOIN messages"
    " ON messages.channel_id = threads.channel_id AND serial = first_serial"
    " WHERE threads.channel_id = $1"
)
_AFTER = f"{_THREADS} AND first_serial > $2 ORDER BY first_serial LIMIT $3"
_IN_STATUS = f"{_THREADS} AND status = $2 AND first_serial > $3 ORDER BY first_serial LIMIT $4"
_CONVERSATION = (
    f"SELECT {MESSAGE_COLUMNS}, {MESSAGE_SIZE} FROM thread_messages JOIN messages"  # noqa: S608
    " USING (channel_id, serial) WHERE channel_id = $1 AND conversation = $2"
)
_CONVERSATION_AFTER = f"{_CONVERSATION} AND serial > $3 ORDER BY serial LIMIT $4"
_CONVERSATION_BEFORE = f"{_CONVERSATION} AND serial < $3 ORDER BY serial DESC LIMIT $4"
_BEHIND_ALL = 2**63 - 1
_MESSAGE_FIELDS = MESSAGE_COLUMNS.count(",") + 1


@dataclass(slots=True)
class _Thread:
    """The changes that new messages of a conversation make to its row. `state_serial` is the newest
    message that sets a status."""

    first_serial: int
    last_serial: int = 0
    count: int = 0
    updated_at: int = 0
    state_serial: int | None = None
    status: str | None = None


class ThreadAppends:
    """The index rows for new messages of any number of channels; messages of a channel come in
    order."""

    def __init__(self, sql: Sql) -> None:
        self._sql = sql
        self._threads: dict[tuple[int, str], _Thread] = {}
        self._messages: list[Row] = []

    def add(self, channel_id: int, conversation: str, message: Message) -> None:
        payload, content_type = message.payload, message.content_type
        thread = self.add_row(channel_id, conversation, message.serial, message.published_at)
        if is_state(message.event):
            thread.state_serial = message.serial
            thread.status = status_of(payload, content_type)

    def add_row(
        self, channel_id: int, conversation: str, serial: int, published_at: int
    ) -> _Thread:
        self._messages.append((channel_id, conversation, serial))
        thread = self._threads.setdefault((channel_id, conversation), _Thread(serial))
        thread.last_serial = serial
        thread.count += 1
        thread.updated_at = published_at
        return thread

    async def store(self) -> None:
        if not self._messages:
            return
        rows = [(*key, *astuple(thread)) for key, thread in self._threads.items()]
        await self._sql.execute_many(_INSERT_MESSAGES, self._messages)
        await self._sql.execute_many(_CONTINUE, rows)


async def delete_from_threads(sql: Sql, channel_id: int, end: int) -> None:
    """Updates the index when the messages before the serial `end` are deleted: threads are deleted
    with their last message, or begin later."""
    gone = await sql.fetch(
        f"SELECT conversation, count(*) FROM {_GOING} GROUP BY conversation",  # noqa: S608
        channel_id,
        end,
    )
    if not gone:
        return
    await sql.execute(f"DELETE FROM {_GOING}", channel_id, end)  # noqa: S608
    await sql.execute(
        "DELETE FROM threads WHERE channel_id = $1 AND first_serial < $2 AND last_serial < $2",
        channel_id,
        end,
    )
    await sql.execute_many(_SHORTEN, [(channel_id, *row, end) for row in gone])


class ThreadWrites:
    """Part of `Writes`; runs in its transactions."""

    _sql: Sql

    async def index_threads(
        self, hub: str, channel: str, partition: int, term: int, limit: int
    ) -> bool:
        """Indexes at most `limit` messages, oldest first; returns whether there are more."""
        await check_term(self._sql, partition, term)
        for channel_id, head, first, threaded in await self._sql.fetch(
            "SELECT id, head, first_serial, threaded FROM channels WHERE hub = $1 AND name = $2"
            " FOR UPDATE",
            hub,
            channel,
        ):
            await delete_from_threads(self._sql, channel_id, first)
            rows = await self._sql.fetch(_UNINDEXED, channel_id, threaded, limit)
            await self._index(channel_id, rows)
            reached = rows[-1][0] if rows else head
            await self._sql.execute(
                "UPDATE channels SET threaded = $2 WHERE id = $1", channel_id, reached
            )
            return bool(reached < head)
        return False

    async def _index(self, channel_id: int, rows: Iterable[Row]) -> None:
        appends = ThreadAppends(self._sql)
        for serial, published_at, event, content_type, stored, payload in rows:
            attributes = attributes_of(stored)
            if attributes is None or attributes.conversation_id is None:
                continue
            thread = appends.add_row(channel_id, attributes.conversation_id, serial, published_at)
            if is_state(event):
                thread.state_serial = serial
                thread.status = status_of(payload, content_type)
        await appends.store()


class ThreadReads(Pages):
    """Part of `Reads`."""

    @single_statement
    async def threads_indexed(self, hub: str, channel: str) -> bool:
        return not await self._sql.fetch(_BEHIND, hub, channel)

    async def read_threads(self, query: ThreadsQuery) -> StoredThreads:
        channel_id, head = await read_channel(self._sql, query.hub, query.channel)
        page = self._page(query.limit)
        if query.status is None:
            await self._fill(page, _AFTER, channel_id, start=query.after)
        else:
            await self._fill(page, _IN_STATUS, channel_id, query.status, start=query.after)
        threads = tuple(_thread(row, query.hub, query.channel) for row in page.rows)
        return StoredThreads(threads, page.more, head)

    async def read_conversation(
        self, hub: str, channel: str, conversation: str, after: int, limit: int
    ) -> StoredPage:
        channel_id, head = await read_channel(self._sql, hub, channel)
        page = self._page(limit)
        await self._fill(page, _CONVERSATION_AFTER, channel_id, conversation, start=after)
        return stored_page(page, hub, channel, head)

    async def read_conversation_before(
        self, hub: str, channel: str, conversation: str, before: int | None, limit: int
    ) -> StoredPage:
        channel_id, head = await read_channel(self._sql, hub, channel)
        page = self._page(limit)
        start = _BEHIND_ALL if before is None else before
        await self._fill(page, _CONVERSATION_BEFORE, channel_id, conversation, start=start)
        return stored_page(page, hub, channel, head)


def _thread(row: Row, hub: str, channel: str) -> Thread:
    conversation, count, last_serial, updated_at, status = row[_MESSAGE_FIELDS:]
    first = from_row(row[:_MESSAGE_FIELDS], hub, channel)
    return Thread(conversation, first, count, last_serial, updated_at, status)
