"""Appends messages: checks the term and the channel's head, and writes the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from hubbub.domain.errors import Conflict, HubbubError
from hubbub.ports.storage.messages import Append
from hubbub.storage.sql.communication import StepRows
from hubbub.storage.sql.connection import ManyRows, Row, Sql, insert, replacing, rows_of
from hubbub.storage.sql.documents import DocumentAppends
from hubbub.storage.sql.records import INSERT_MESSAGE, envelope_size, to_blob, to_row
from hubbub.storage.sql.search import TextAppends
from hubbub.storage.sql.threads import ThreadAppends
from hubbub.storage.sql.usage import PUT_BYTES, count_bytes, read_terms, stale

_KEY = {"hub": "text", "name": "text"}
_CHANNEL = "hub, name, id, epoch, head, high_at, threaded, searched"
# Column and table names only; every value is a parameter.
_READ_CHANNELS = ManyRows(
    table="channels",
    single=f"SELECT {_CHANNEL} FROM channels WHERE hub = $1 AND name = $2",  # noqa: S608
    arrays=f"SELECT {_CHANNEL} FROM channels JOIN {rows_of(_KEY)} USING (hub, name)",  # noqa: S608
)
_CREATE_CHANNELS = insert(
    "channels",
    {
        **_KEY,
        "epoch": "text",
        "head": "bigint",
        "first_serial": "bigint",
        "high_at": "bigint",
        "stored_bytes": "bigint",
        "threaded": "bigint",
        "searched": "bigint",
    },
    "RETURNING hub, name, id",
)
_HEAD = {
    "id": "bigint",
    "head": "bigint",
    "high_at": "bigint",
    "added": "bigint",
    "threaded": "bigint",
    "searched": "bigint",
}
_MOVE_HEADS = ManyRows(
    table="channels",
    single="UPDATE channels SET head = $2, high_at = $3, stored_bytes = stored_bytes + $4,"
    " threaded = $5, searched = $6 WHERE id = $1",
    arrays="UPDATE channels SET head = item.head, high_at = item.high_at,"  # noqa: S608
    " stored_bytes = stored_bytes + item.added, threaded = item.threaded,"
    " searched = item.searched"
    f" FROM {rows_of(_HEAD)} WHERE channels.id = item.id",
)
_RETAINED = {"hub": "text", "channel": "text", "expires_at": "bigint", "message": "bytea"}
PUT_RETAINED = insert("retained", _RETAINED, replacing(_RETAINED, "hub", "channel"))


class RefusedAppend(msgspec.Struct, frozen=True, array_like=True):
    """The error of the append at this index."""

    index: int
    code: str
    message: str
    detail: str | None = None


@dataclass(slots=True, eq=False)
class _AppendState:
    """A channel's row as this batch leaves it. A new channel has no id yet."""

    id: int | None
    epoch: str
    head: int
    high_at: int
    threaded: int
    """The serial up to which messages are in the index of threads."""
    searched: int | None = None
    """The serial up to which messages are in the full-text index."""
    added: int = 0
    """Added payload bytes."""
    accepted: list[tuple[Append, int]] = field(default_factory=list)
    """Accepted appends, each with the `high_at` at that point."""
    indexed: set[int] = field(default_factory=set)
    """The serials that continue the full-text index."""

    def accept(self, append: Append) -> None:
        if self.threaded == self.head:
            self.threaded = append.message.serial
        if append.search:
            self._index(append.message.serial)
        self.head = append.message.serial
        self.high_at = max(self.high_at, append.message.published_at)
        self.added += len(append.message.payload)
        self.accepted.append((append, self.high_at))

    def _index(self, serial: int) -> None:
        """Where messages before this one are not indexed, it waits until they are."""
        if self.searched is None:
            self.searched = 0
        if self.searched == self.head:
            self.searched = serial
            self.indexed.add(serial)


async def append_messages(sql: Sql, appends: Sequence[Append]) -> list[RefusedAppend]:
    """Stores appends that continue their channel's head under the current term; returns the others.
    Heads are read after terms, so that all rows of a former owner are visible."""
    terms = await read_terms(sql, {append.partition for append in appends})
    channels = await _read_channels(sql, appends)
    documents = DocumentAppends(sql)
    await documents.read(appends)
    refusals: list[RefusedAppend] = []
    retained: dict[tuple[str, str], Row] = {}
    payloads: dict[str, int] = {}
    others: dict[str, int] = {}
    for index, append in enumerate(appends):
        message = append.message
        key = (message.hub, message.channel)
        change = append.change
        refused: HubbubError | None = stale(append.partition, append.term, terms)
        if refused is None and (change is None or message.serial):
            refused = _refuse(append, channels[key])
        if refused is None and change is not None:
            refused = documents.refuse(append, change)
        if refused is not None:
            refusals.append(RefusedAppend(index, refused.code, refused.message, refused.detail))
            continue
        added = len(message.payload)
        if change is None or message.serial:
            channels[key].accept(append)
        if change is not None:
            added += documents.accept(append, change)
            if append.producer:
                others[message.hub] = others.get(message.hub, 0) + PUT_BYTES
        payloads[message.hub] = payloads.get(message.hub, 0) + added
        if append.retain_until is not None:
            retained[key] = (*key, append.retain_until, to_blob(message))
    accepted = {key: channel for key, channel in channels.items() if channel.accepted}
    await _store(sql, accepted, others)
    await documents.store()
    await sql.execute_many(PUT_RETAINED, list(retained.values()))
    await count_bytes(sql, payloads, others)
    return refusals


async def _read_channels(
    sql: Sql, appends: Sequence[Append]
) -> dict[tuple[str, str], _AppendState]:
    """A channel without a row is returned as one before its first message."""
    channels: dict[tuple[str, str], _AppendState] = {}
    for append in appends:
        key = (append.message.hub, append.message.channel)
        if key not in channels:
            channels[key] = _AppendState(None, append.epoch, 0, 0, 0)
    for hub, name, *row in await sql.fetch_many(_READ_CHANNELS, list(channels)):
        channels[hub, name] = _AppendState(*row)
    return channels


async def _store(
    sql: Sql, channels: Mapping[tuple[str, str], _AppendState], others: dict[str, int]
) -> None:
    """Adds to `others` the bytes of each hub's messages besides their payloads."""
    new = [
        (
            *key,
            channel.epoch,
            channel.head,
            1,
            channel.high_at,
            channel.added,
            channel.threaded,
            channel.searched,
        )
        for key, channel in channels.items()
        if channel.id is None
    ]
    moved = [
        (c.id, c.head, c.high_at, c.added, c.threaded, c.searched)
        for c in channels.values()
        if c.id is not None
    ]
    for hub, name, channel_id in await sql.fetch_many(_CREATE_CHANNELS, new):
        channels[hub, name].id = channel_id
    rows: list[Row] = []
    threads, texts, steps = ThreadAppends(sql), TextAppends(sql), StepRows(sql)
    for (hub, _), channel in channels.items():
        assert channel.id is not None
        first, words = len(rows), 0
        indexed = channel.threaded == channel.head
        for append, high_at in channel.accepted:
            rows.append(to_row(append, channel.id, high_at))
            attributes = append.message.attributes
            if attributes is not None and attributes.conversation_id is not None and indexed:
                threads.add(channel.id, attributes.conversation_id, append.message)
            if append.message.serial in channel.indexed:
                message = append.message
                words += texts.add(
                    channel.id, message.serial, high_at, message.payload, message.content_type
                )
            if append.communication is not None:
                steps.add(append.message.hub, append.communication, append.message)
        others[hub] = (
            others.get(hub, 0)
            + words
            + sum(envelope_size(row[4], row[5], row[6], row[7], row[9]) for row in rows[first:])
        )
    await sql.execute_many(INSERT_MESSAGE, rows)
    await sql.execute_many(_MOVE_HEADS, moved)
    await threads.store()
    await texts.store()
    await steps.store()


def _refuse(append: Append, channel: _AppendState) -> HubbubError | None:
    message = append.message
    if append.epoch == channel.epoch and message.serial == channel.head + 1:
        return None
    return Conflict(
        f"message {message.id!r} has serial {message.serial} in epoch {append.epoch!r}, but the"
        f" channel {message.channel!r} of hub {message.hub!r} stands at {channel.head} in epoch"
        f" {channel.epoch!r}; read the head again"
    )
