"""Rows of channels, and pages of their messages."""

from __future__ import annotations

from operator import itemgetter

from hubbub.ports.storage.messages import ChannelHead, StoredPage
from hubbub.storage.sql.connection import Sql
from hubbub.storage.sql.pages import RowPage
from hubbub.storage.sql.records import from_row

# The first serial whose `high_at` is no less than the time, or head + 1. Serials have no gaps and
# `high_at` rises with them, so halving finds it with a few reads of the index by serial; an index
# by time would have to be written with every message.
FIRST_AT = """
WITH RECURSIVE span (low, high) AS (
    SELECT CAST($2 AS BIGINT), CAST($3 AS BIGINT) + 1
    UNION ALL
    SELECT CASE WHEN high_at >= $4 THEN low ELSE serial + 1 END,
           CASE WHEN high_at >= $4 THEN serial ELSE high END
    FROM span JOIN messages ON channel_id = $1 AND serial = (low + high) / 2
    WHERE low < high
)
SELECT low FROM span WHERE low = high
"""


async def read_channel(sql: Sql, hub: str, channel: str) -> tuple[int, ChannelHead | None]:
    """The channel's id and head; 0 and None if nothing was ever stored in it."""
    rows = await sql.fetch(
        "SELECT id, epoch, head, first_serial FROM channels WHERE hub = $1 AND name = $2",
        hub,
        channel,
    )
    return (rows[0][0], ChannelHead(*rows[0][1:])) if rows else (0, None)


def stored_page(page: RowPage, hub: str, channel: str, head: ChannelHead | None) -> StoredPage:
    rows = sorted(page.rows, key=itemgetter(0))
    return StoredPage(tuple(from_row(row, hub, channel) for row in rows), page.more, head)
