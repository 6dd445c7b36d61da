"""Rows of channels, and pages of their messages."""

from __future__ import annotations

from operator import itemgetter

from hubbub.ports.storage.messages import ChannelHead, StoredPage
from hubbub.storage.sql.connection import Sql
from hubbub.storage.sql.pages import RowPage
from hubbub.storage.sql.records import from_row


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
