"""Removes messages of an erased user from the conversations of a channel."""

from __future__ import annotations

from hubbub.domain.threads import is_state, status_of
from hubbub.storage.sql.connection import ManyRows, Sql, rows_of
from hubbub.storage.sql.records import attributes_of
from hubbub.storage.sql.threads import FIRST_LEFT

_LAST_LEFT = FIRST_LEFT.replace("min(", "max(")
_ERASED = {"channel_id": "bigint", "conversation": "text", "serial": "bigint"}
_TAKE_OUT = ManyRows(
    table="thread_messages",
    single="DELETE FROM thread_messages"
    " WHERE channel_id = $1 AND conversation = $2 AND serial = $3",
    arrays=f"DELETE FROM thread_messages USING {rows_of(_ERASED)}"  # noqa: S608 - names only
    " WHERE thread_messages.channel_id = item.channel_id"
    " AND thread_messages.conversation = item.conversation"
    " AND thread_messages.serial = item.serial",
)
_LEFT_OVER = {"channel_id": "bigint", "conversation": "text", "gone": "bigint"}
_END = ManyRows(
    table="threads",
    single="DELETE FROM threads WHERE channel_id = $1 AND conversation = $2 AND message_count = $3",
    arrays=f"DELETE FROM threads USING {rows_of(_LEFT_OVER)}"  # noqa: S608 - names only
    " WHERE threads.channel_id = item.channel_id AND threads.conversation = item.conversation"
    " AND message_count = item.gone",
)
_SPANNED = (
    f"first_serial = ({FIRST_LEFT}), last_serial = ({_LAST_LEFT}),"  # noqa: S608 - names only
    " updated_at = (SELECT published_at FROM messages"
    f" WHERE messages.channel_id = threads.channel_id AND messages.serial = ({_LAST_LEFT}))"
)
_THIN_OUT = ManyRows(
    table="threads",
    single=f"UPDATE threads SET message_count = message_count - $3, {_SPANNED}"  # noqa: S608
    " WHERE channel_id = $1 AND conversation = $2",
    arrays="UPDATE threads SET message_count = message_count - item.gone,"  # noqa: S608
    f" {_SPANNED}"
    f" FROM {rows_of(_LEFT_OVER)}"
    " WHERE threads.channel_id = item.channel_id AND threads.conversation = item.conversation",
)
_INDEXED = """
SELECT serial, event, attributes FROM messages JOIN channels ON channels.id = channel_id
WHERE channel_id = $1 AND serial > $2 AND serial <= $3
    AND (publisher = $4 OR serial = ANY($5)) AND serial <= threaded
ORDER BY serial
"""
_NEWEST_STATE = """
SELECT serial, content_type, payload FROM thread_messages JOIN messages USING (channel_id, serial)
WHERE channel_id = $1 AND conversation = $2 AND lower(event) = 'hconvstate'
ORDER BY serial DESC LIMIT 1
"""


async def erase_from_threads(
    sql: Sql, channel_id: int, after: int, until: int, user_id: str, concerned: list[int]
) -> None:
    """Messages of the user after the serial `after`, up to and including `until`, and the messages
    in `concerned`, are about to lose their attributes: removes them and the statuses that they set
    from their conversations."""
    gone: dict[str, list[int]] = {}
    states: dict[str, int] = {}
    for serial, event, stored in await sql.fetch(
        _INDEXED, channel_id, after, until, user_id, concerned
    ):
        attributes = attributes_of(stored)
        if attributes is None or attributes.conversation_id is None:
            continue
        gone.setdefault(attributes.conversation_id, []).append(serial)
        if is_state(event):
            states[attributes.conversation_id] = serial
    counts = [(channel_id, name, len(serials)) for name, serials in gone.items()]
    await sql.execute_many(_TAKE_OUT, [(channel_id, c, s) for c in gone for s in gone[c]])
    await sql.execute_many(_END, counts)
    await sql.execute_many(_THIN_OUT, counts)
    for name, erased in states.items():
        serial, status = await _newest_state(sql, channel_id, name)
        await sql.execute(
            "UPDATE threads SET state_serial = $4, status = $5"
            " WHERE channel_id = $1 AND conversation = $2 AND state_serial = $3",
            channel_id,
            name,
            erased,
            serial,
            status,
        )


async def _newest_state(
    sql: Sql, channel_id: int, conversation: str
) -> tuple[int | None, str | None]:
    for serial, content_type, payload in await sql.fetch(_NEWEST_STATE, channel_id, conversation):
        return serial, status_of(payload, content_type)
    return None, None
