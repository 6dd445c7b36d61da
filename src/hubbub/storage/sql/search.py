"""SQL for the full-text index: words of appended and deleted messages, and the search for phrases.

A row of `search_texts` has a `place`, which is channel and serial in one number: the words of a
channel lie side by side, and a search never reads those of another channel. What indexes the words,
and how it is asked, is the database's own (`Sql.find_words`)."""

from __future__ import annotations

from collections.abc import Sequence

from hubbub.domain.search import INDEXED_BYTES, Phrases, score, words_of_message
from hubbub.ports.storage.messages import StoredPage
from hubbub.ports.storage.search import FoundTexts, IndexedChannel, SerialRange, TextHit
from hubbub.storage.sql.channels import FIRST_AT, read_channel, stored_page
from hubbub.storage.sql.connection import Row, Sql, insert, single_statement
from hubbub.storage.sql.pages import Pages
from hubbub.storage.sql.records import MESSAGE_COLUMNS, MESSAGE_SIZE
from hubbub.storage.sql.usage import check_term, count_bytes

_SERIAL_BITS = 32
_SERIALS = 1 << _SERIAL_BITS
WINDOW = 8192
"""The most messages that one question looks through, divided by the number of its words: each word
of each message takes up to a microsecond or two."""
_MOST_WINDOWS = 100
_ROW_BYTES = 100
"""What a row takes on disk besides its words, which are stored and indexed."""

_INSERT = insert(
    "search_texts",
    {"place": "bigint", "channel_id": "bigint", "at": "bigint", "size": "bigint", "words": "text"},
)
_UNINDEXED = f"""
SELECT serial, high_at, content_type, substr(payload, 1, {INDEXED_BYTES}) FROM messages
WHERE channel_id = $1 AND serial > $2 ORDER BY serial LIMIT $3
"""  # noqa: S608 - a number
_WITHIN = "FROM search_texts WHERE place >= $1 AND place <= $2"
_OF_ERASED = (
    "FROM search_texts WHERE place IN (SELECT $1 + serial FROM messages"
    " WHERE channel_id = $2 AND serial > $3 AND serial <= $4"
    " AND (publisher = $5 OR serial = ANY($6)))"
)
_CHANNELS = """
SELECT id, name, first_serial, head, searched, high_at FROM channels
WHERE hub = $1 AND searched IS NOT NULL AND name >= $2 ORDER BY name LIMIT $3
"""
_MESSAGES = (
    f"SELECT {MESSAGE_COLUMNS}, {MESSAGE_SIZE} FROM messages"  # noqa: S608 - names only
    " WHERE channel_id = $1 AND serial = ANY($2) AND serial > $3 ORDER BY serial LIMIT $4"
)


def place_of(channel_id: int, serial: int) -> int:
    return (channel_id << _SERIAL_BITS) + serial


class TextAppends:
    """The words of new messages of any number of channels."""

    def __init__(self, sql: Sql) -> None:
        self._sql = sql
        self._rows: list[Row] = []

    def add(self, channel_id: int, serial: int, at: int, payload: bytes, content_type: str) -> int:
        """Returns the bytes that the words take."""
        words = words_of_message(payload, content_type)
        if not words:
            return 0
        size = _ROW_BYTES + 2 * len(words.encode())
        self._rows.append((place_of(channel_id, serial), channel_id, at, size, words))
        return size

    async def store(self) -> None:
        """In the order of their places, in which the index takes them best."""
        if self._rows:
            await self._sql.execute_many(_INSERT, sorted(self._rows))


async def delete_texts_before(sql: Sql, channel_id: int, end: int) -> int:
    """Deletes the words of the messages before the serial `end`; returns their bytes."""
    return await _delete(sql, _WITHIN, place_of(channel_id, 0), place_of(channel_id, end - 1))


async def erase_texts(
    sql: Sql, channel_id: int, after: int, until: int, user_id: str, concerned: list[int]
) -> int:
    """Deletes the words of the messages that are about to be erased; returns their bytes."""
    base = place_of(channel_id, 0)
    return await _delete(sql, _OF_ERASED, base, channel_id, after, until, user_id, concerned)


async def _delete(sql: Sql, which: str, *values: object) -> int:
    ((size,),) = await sql.fetch(f"SELECT coalesce(sum(size), 0) {which}", *values)
    if size:
        await sql.execute(f"DELETE {which}", *values)
    return int(size)


class SearchWrites:
    """Part of `Writes`; runs in its transactions."""

    _sql: Sql

    async def index_texts(
        self, hub: str, channel: str, partition: int, term: int, limit: int
    ) -> bool:
        """Indexes at most `limit` messages, oldest first; returns whether there are more."""
        await check_term(self._sql, partition, term)
        for channel_id, head, first, searched in await self._sql.fetch(
            "SELECT id, head, first_serial, searched FROM channels WHERE hub = $1 AND name = $2"
            " FOR UPDATE",
            hub,
            channel,
        ):
            freed = await delete_texts_before(self._sql, channel_id, first)
            appends, added = TextAppends(self._sql), 0
            rows = await self._sql.fetch(_UNINDEXED, channel_id, searched or 0, limit)
            for serial, at, content_type, payload in rows:
                added += appends.add(channel_id, serial, at, payload, content_type)
            await appends.store()
            reached = rows[-1][0] if len(rows) == limit else head
            await self._move(channel_id, reached)
            await count_bytes(self._sql, {hub: 0}, {hub: added - freed})
            return bool(reached < head)
        return False

    async def drop_texts(
        self, hub: str, channel: str, partition: int, term: int, limit: int
    ) -> bool:
        """Deletes the words of at most `limit` messages; returns whether there are more."""
        await check_term(self._sql, partition, term)
        for (channel_id,) in await self._sql.fetch(
            "SELECT id FROM channels WHERE hub = $1 AND name = $2 FOR UPDATE", hub, channel
        ):
            bounds = place_of(channel_id, 0), place_of(channel_id + 1, 0) - 1
            rows = await self._sql.fetch(
                f"SELECT place {_WITHIN} ORDER BY place LIMIT $3",
                *bounds,
                limit,
            )
            freed = 0
            if rows:
                freed = await _delete(self._sql, _WITHIN, bounds[0], rows[-1][0])
            # A search does not find the channel any more, even while some words are left.
            await self._move(channel_id, None)
            await count_bytes(self._sql, {hub: 0}, {hub: -freed})
            return len(rows) == limit
        return False

    async def _move(self, channel_id: int, searched: int | None) -> None:
        await self._sql.execute(
            "UPDATE channels SET searched = $2 WHERE id = $1", channel_id, searched
        )


class SearchReads(Pages):
    """Part of `Reads`."""

    @single_statement
    async def read_indexed_channels(self, hub: str, begin: str, limit: int) -> list[IndexedChannel]:
        return [IndexedChannel(*row) for row in await self._sql.fetch(_CHANNELS, hub, begin, limit)]

    async def find_texts(
        self, hub: str, spans: Sequence[SerialRange], phrases: Phrases, limit: int, ranked: bool
    ) -> FoundTexts:
        windows, rest = _windows(spans, sum(map(len, phrases)))
        places = [
            (place_of(each.channel_id, each.low), place_of(each.channel_id, each.high))
            for each in windows
        ]
        hits: list[TextHit] = []
        full: dict[int, int] = {}
        for place, at, words in await self._sql.find_words(places, phrases, limit, ranked):
            channel_id, serial = place >> _SERIAL_BITS, place % _SERIALS
            full[channel_id] = full.get(channel_id, 0) + 1
            hits.append(TextHit(channel_id, serial, at, score(words, phrases) if ranked else 0.0))
        left = (each for each in rest if full.get(each.channel_id, 0) < limit)
        return FoundTexts(tuple(hits), tuple(left))

    async def read_messages(self, hub: str, channel: str, serials: Sequence[int]) -> StoredPage:
        channel_id, head = await read_channel(self._sql, hub, channel)
        page = self._page(len(serials))
        await self._fill(page, _MESSAGES, channel_id, list(serials), start=0)
        return stored_page(page, hub, channel, head)

    async def first_serials_at(
        self, hub: str, questions: Sequence[tuple[IndexedChannel, int]]
    ) -> list[int]:
        serials: list[int] = []
        for channel, time in questions:
            ((serial,),) = await self._sql.fetch(
                FIRST_AT, channel.id, channel.first, channel.head, time
            )
            serials.append(int(serial))
        return serials


def _windows(
    spans: Sequence[SerialRange], words: int
) -> tuple[list[SerialRange], list[SerialRange]]:
    """The parts of the spans that one question looks through, the newest of each, and the rest:
    spans that were not begun before remainders of those that were."""
    found: list[SerialRange] = []
    behind: list[SerialRange] = []
    left = max(1, WINDOW // words)
    for at, span in enumerate(spans):
        if left <= 0 or len(found) == _MOST_WINDOWS:
            return found, [*spans[at:], *behind]
        low = max(span.low, span.high - left + 1)
        left -= span.high - low + 1
        found.append(SerialRange(span.channel_id, low, span.high))
        if low > span.low:
            behind.append(SerialRange(span.channel_id, span.low, low - 1))
    return found, behind
