"""The tables of an outbox. All functions run inside a transaction.

The hub accepts the puts to a topic only in the order of their sequence numbers, without a gap; the
sequence number of a refused put goes to the next message. So a message has a `number` that never
changes, and its topic counts how many numbers were `given_back`: the sequence number is the
difference. Passing a sequence number on is then one small write, however many messages wait.
"""

from __future__ import annotations

import secrets
import sqlite3
import time
from typing import Any, Unpack

import msgspec

from hubbub.client.envelope import Envelope, attributes_of, size_of
from hubbub.client.errors import OutboxFull, OutboxMismatch
from hubbub.client.messages import encode_data
from hubbub.domain.errors import HubbubError
from hubbub.domain.messages import Attributes
from hubbub.domain.names import check_name
from hubbub.domain.payloads import typed_payload
from hubbub.domain.requests import PublishItem
from hubbub.protocols.checks import check_event_name

FORMAT = 2
_SCHEMA = (
    """CREATE TABLE IF NOT EXISTS hubbub_outbox (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        format INTEGER NOT NULL,
        producer TEXT NOT NULL,
        hub TEXT,
        user TEXT,
        messages INTEGER NOT NULL DEFAULT 0,
        bytes INTEGER NOT NULL DEFAULT 0,
        max_messages INTEGER NOT NULL,
        max_bytes INTEGER NOT NULL
    )""",
    """CREATE TABLE IF NOT EXISTS hubbub_outbox_topics (
        topic TEXT PRIMARY KEY,
        next INTEGER NOT NULL,
        given_back INTEGER NOT NULL DEFAULT 0
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS hubbub_outbox_messages (
        place INTEGER PRIMARY KEY AUTOINCREMENT,
        topic TEXT NOT NULL,
        number INTEGER NOT NULL,
        event TEXT NOT NULL,
        content_type TEXT NOT NULL,
        payload BLOB NOT NULL,
        attributes BLOB
    )""",
    """CREATE INDEX IF NOT EXISTS hubbub_outbox_order
        ON hubbub_outbox_messages (topic, number)""",
    """CREATE TABLE IF NOT EXISTS hubbub_outbox_refused (
        place INTEGER PRIMARY KEY,
        topic TEXT NOT NULL,
        event TEXT NOT NULL,
        content_type TEXT NOT NULL,
        payload BLOB NOT NULL,
        code TEXT NOT NULL,
        message TEXT NOT NULL,
        refused_at INTEGER NOT NULL,
        attributes BLOB
    )""",
)
_FROM_FORMAT_1 = (
    "ALTER TABLE hubbub_outbox_messages ADD COLUMN attributes BLOB",
    "ALTER TABLE hubbub_outbox_refused ADD COLUMN attributes BLOB",
    "UPDATE hubbub_outbox SET format = 2",
)
_attributes = msgspec.json.Decoder(Attributes).decode


class Limits(msgspec.Struct, frozen=True):
    """The limits of an outbox; refused messages that were not forgotten count."""

    messages: int = 100_000
    payload_bytes: int = 1024**3


class OutboxOptions(Envelope, total=False):
    """A security token is not an option: an outbox stores none."""

    content_type: str | None


class QueuedMessage(msgspec.Struct, frozen=True):
    """A message that the hub has not confirmed. `place` is unique in the file."""

    place: int
    sequence: int
    item: PublishItem


class Refusal(msgspec.Struct, frozen=True):
    """A message that the hub refused permanently, and the error."""

    place: int
    topic: str
    event: str
    content_type: str
    payload: bytes
    code: str
    message: str
    refused_at: int
    """Milliseconds since 1970."""
    attributes: Attributes | None = None


class OutboxOwner(msgspec.Struct, frozen=True):
    producer: str
    hub: str | None
    user: str | None


def draft(
    topic: str, data: object, event: str = "", **options: Unpack[OutboxOptions]
) -> PublishItem:
    """A put without its sequence number, checked as far as a client can: no message that every hub
    would refuse is stored. Raises `InvalidName`, `InvalidAttribute` or `InvalidPayload`."""
    check_name(topic, "topic")
    check_event_name(event)
    envelope: dict[str, Any] = {**options}
    encoded, content_type = encode_data(data, envelope.pop("content_type", None))
    payload, _ = typed_payload(encoded, content_type)
    return _put(topic, event, content_type, payload, attributes_of(envelope))


def _put(
    topic: str, event: str, content_type: str, payload: bytes, attributes: Attributes | None
) -> PublishItem:
    return PublishItem(topic, event, payload, content_type, store=True, attributes=attributes)


def prepare(connection: sqlite3.Connection, limits: Limits | None = None) -> None:
    """Creates the tables and the producer's id, unless they exist."""
    for statement in _SCHEMA:
        connection.execute(statement)
    usual = limits or Limits()
    connection.execute(
        "INSERT OR IGNORE INTO hubbub_outbox (one, format, producer, max_messages, max_bytes)"
        " VALUES (1, ?, ?, ?, ?)",
        (FORMAT, secrets.token_hex(16), usual.messages, usual.payload_bytes),
    )
    if limits is not None:
        connection.execute(
            "UPDATE hubbub_outbox SET max_messages = ?, max_bytes = ?"
            " WHERE max_messages <> ? OR max_bytes <> ?",
            (limits.messages, limits.payload_bytes) * 2,
        )
    (found,) = connection.execute("SELECT format FROM hubbub_outbox").fetchone()
    _upgrade(connection, found)


def _upgrade(connection: sqlite3.Connection, found: int) -> None:
    """Migrates a file of an older format. Raises `OutboxMismatch`."""
    if found == 1:
        for statement in _FROM_FORMAT_1:
            connection.execute(statement)
    elif found != FORMAT:
        raise OutboxMismatch(
            f"the outbox has format {found}, this version knows {FORMAT}; use a newer version"
        )


def owner(connection: sqlite3.Connection) -> OutboxOwner:
    return OutboxOwner(
        *connection.execute("SELECT producer, hub, user FROM hubbub_outbox").fetchone()
    )


def belongs_to(connection: sqlite3.Connection, hub: str) -> OutboxOwner:
    """Records the hub of the messages, the first time. Raises `OutboxMismatch`."""
    connection.execute("UPDATE hubbub_outbox SET hub = ? WHERE hub IS NULL", (hub,))
    found = owner(connection)
    if found.hub != hub:
        raise OutboxMismatch(
            f"the outbox holds messages for hub {found.hub!r}, not {hub!r}; use a file for each hub"
        )
    return found


def sent_by(connection: sqlite3.Connection, user: str) -> None:
    """Records the sending user, the first time: another user's puts are numbered separately, and
    messages already sent would be duplicated. Raises `OutboxMismatch`."""
    connection.execute("UPDATE hubbub_outbox SET user = ? WHERE user IS NULL", (user,))
    found = owner(connection)
    if found.user != user:
        raise OutboxMismatch(
            f"the outbox was used by {found.user or 'an anonymous client'!r}, not by "
            f"{user or 'an anonymous client'!r}; use a file for each user"
        )


def add(connection: sqlite3.Connection, message: PublishItem) -> int:
    """Appends a message to its topic; returns its place. Raises `OutboxFull`."""
    size = size_of(message)
    held, held_bytes, most, most_bytes, found = connection.execute(
        "SELECT messages, bytes, max_messages, max_bytes, format FROM hubbub_outbox"
    ).fetchone()
    _upgrade(connection, found)
    if held >= most or held_bytes + size > most_bytes:
        raise OutboxFull(
            f"the outbox holds {held} messages with {held_bytes} bytes, at most {most} with "
            f"{most_bytes} are allowed; put to {message.channel!r} again when the hub took some"
        )
    ((number,),) = connection.execute(
        "INSERT INTO hubbub_outbox_topics (topic, next) VALUES (?, 2)"
        " ON CONFLICT (topic) DO UPDATE SET next = next + 1 RETURNING next - 1",
        (message.channel,),
    ).fetchall()
    added = connection.execute(
        "INSERT INTO hubbub_outbox_messages"
        " (topic, number, event, content_type, payload, attributes) VALUES (?, ?, ?, ?, ?, ?)",
        (
            message.channel,
            number,
            message.event,
            message.content_type,
            message.payload,
            _written(message.attributes),
        ),
    )
    _count(connection, 1, size)
    assert added.lastrowid is not None
    return added.lastrowid


def topics_with_messages(connection: sqlite3.Connection) -> list[str]:
    found = connection.execute(
        "SELECT topic FROM hubbub_outbox_topics AS each WHERE EXISTS"
        " (SELECT 1 FROM hubbub_outbox_messages AS waiting WHERE waiting.topic = each.topic)"
    )
    return [topic for (topic,) in found]


def waiting(
    connection: sqlite3.Connection, topic: str, after: int, limit: int
) -> list[QueuedMessage]:
    """The next messages of a topic after a sequence number, in order."""
    _, given_back = _numbers(connection, topic)
    found = connection.execute(
        "SELECT place, number, event, content_type, payload, attributes"
        " FROM hubbub_outbox_messages WHERE topic = ? AND number > ? ORDER BY number LIMIT ?",
        (topic, after + given_back, limit),
    )
    return [
        QueuedMessage(
            place, number - given_back, _put(topic, event, kind, payload, _read(attributes))
        )
        for place, number, event, kind, payload, attributes in found
    ]


def count_waiting(connection: sqlite3.Connection) -> int:
    (found,) = connection.execute(
        "SELECT messages - (SELECT count(*) FROM hubbub_outbox_refused) FROM hubbub_outbox"
    ).fetchone()
    return int(found)


def confirm(connection: sqlite3.Connection, places: list[int]) -> None:
    """Deletes messages that the hub has stored."""
    _delete(connection, "hubbub_outbox_messages", places)


def refuse(connection: sqlite3.Connection, place: int, error: HubbubError) -> Refusal | None:
    """The hub will never store the topic's first waiting message. Its sequence number goes to the
    next message in the same transaction, so a crash cannot separate the two."""
    found = connection.execute(
        "SELECT topic, number, event, content_type, payload, attributes"
        " FROM hubbub_outbox_messages WHERE place = ?",
        (place,),
    ).fetchone()
    if found is None:
        return None
    topic, number, event, content_type, payload, attributes = found
    if number != _first(connection, topic):
        return None  # it was not its turn yet: it will be refused again, or not
    now = int(time.time() * 1000)
    row = (place, topic, event, content_type, payload, error.code, error.message, now, attributes)
    connection.execute("INSERT INTO hubbub_outbox_refused VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    connection.execute("DELETE FROM hubbub_outbox_messages WHERE place = ?", (place,))
    _give_back(connection, topic, 1)
    return _refusal(row)


def reconcile(connection: sqlite3.Connection, topic: str, last: int) -> None:
    """Continues after the last sequence number that the hub knows.

    Normally it belongs to a waiting message, or precedes the first one. If it is lower, the hub has
    lost confirmed puts (the topic was deleted and created again, or the hub was restored from a
    backup): waiting messages get the sequence numbers from there on. If it is higher, this file is
    an old copy. Raises `OutboxMismatch`.
    """
    following, given_back = _numbers(connection, topic)
    if last >= following - given_back:
        raise OutboxMismatch(
            f"the hub has {last} puts of this outbox to {topic!r}, the file knows of "
            f"{following - given_back - 1}: it is an old copy. Start with a new file; what waits "
            "in this one may have been sent already"
        )
    first = _first(connection, topic) or following
    missing = first - given_back - 1 - last
    if missing > 0:
        _give_back(connection, topic, missing)


def refused(connection: sqlite3.Connection) -> list[Refusal]:
    found = connection.execute("SELECT * FROM hubbub_outbox_refused ORDER BY place")
    return [_refusal(row) for row in found]


def _refusal(row: tuple[Any, ...]) -> Refusal:
    return msgspec.structs.replace(Refusal(*row[:-1]), attributes=_read(row[-1]))


def forget(connection: sqlite3.Connection, place: int) -> None:
    _delete(connection, "hubbub_outbox_refused", [place])


def put_again(connection: sqlite3.Connection, place: int) -> str | None:
    """Moves a refused message to the end of its topic; returns the topic."""
    found = connection.execute(
        "DELETE FROM hubbub_outbox_refused WHERE place = ?"
        " RETURNING topic, event, content_type, payload, attributes",
        (place,),
    ).fetchall()
    for topic, event, content_type, payload, attributes in found:
        message = _put(topic, event, content_type, payload, _read(attributes))
        _count(connection, -1, -size_of(message))
        add(connection, message)
        return str(topic)
    return None


def _written(attributes: Attributes | None) -> bytes | None:
    return None if attributes is None else msgspec.json.encode(attributes)


def _read(written: bytes | None) -> Attributes | None:
    return None if written is None else _attributes(written)


def _numbers(connection: sqlite3.Connection, topic: str) -> tuple[int, int]:
    """The next number to assign, and how many were given back."""
    found = connection.execute(
        "SELECT next, given_back FROM hubbub_outbox_topics WHERE topic = ?", (topic,)
    ).fetchone()
    return found or (1, 0)


def _first(connection: sqlite3.Connection, topic: str) -> int | None:
    (found,) = connection.execute(
        "SELECT min(number) FROM hubbub_outbox_messages WHERE topic = ?", (topic,)
    ).fetchone()
    return None if found is None else int(found)


def _give_back(connection: sqlite3.Connection, topic: str, numbers: int) -> None:
    connection.execute(
        "UPDATE hubbub_outbox_topics SET given_back = given_back + ? WHERE topic = ?",
        (numbers, topic),
    )


def _delete(connection: sqlite3.Connection, table: str, places: list[int]) -> None:
    sizes = [
        size
        for place in places
        for (size,) in connection.execute(
            f"DELETE FROM {table} WHERE place = ?"  # noqa: S608
            " RETURNING length(payload) + coalesce(length(attributes), 0)",
            (place,),
        ).fetchall()
    ]
    _count(connection, -len(sizes), -sum(sizes))


def _count(connection: sqlite3.Connection, messages: int, size: int) -> None:
    connection.execute(
        "UPDATE hubbub_outbox SET messages = messages + ?, bytes = bytes + ?", (messages, size)
    )
