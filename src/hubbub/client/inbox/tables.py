"""The tables of an inbox: the last processed message of each durable subscription."""

from __future__ import annotations

import sqlite3

import msgspec

from hubbub.client.errors import AlreadyProcessed, TopicReplaced

_SCHEMA = """CREATE TABLE IF NOT EXISTS hubbub_inbox (
    hub TEXT NOT NULL,
    topic TEXT NOT NULL,
    subscription TEXT NOT NULL,
    epoch TEXT NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (hub, topic, subscription)
) WITHOUT ROWID"""
_WHERE = "WHERE hub = ? AND topic = ? AND subscription = ?"


class Key(msgspec.Struct, frozen=True):
    hub: str
    topic: str
    subscription: str


def prepare(connection: sqlite3.Connection) -> None:
    connection.execute(_SCHEMA)


def position(connection: sqlite3.Connection, key: Key) -> tuple[str, int] | None:
    """Epoch and serial of the last processed message."""
    found: tuple[str, int] | None = connection.execute(
        f"SELECT epoch, position FROM hubbub_inbox {_WHERE}",  # noqa: S608
        msgspec.structs.astuple(key),
    ).fetchone()
    return None if found is None else (found[0], found[1])


def place(connection: sqlite3.Connection, key: Key, epoch: str, serial: int) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO hubbub_inbox VALUES (?, ?, ?, ?, ?)",
        (*msgspec.structs.astuple(key), epoch, serial),
    )


def forget(connection: sqlite3.Connection, key: Key) -> None:
    connection.execute(
        f"DELETE FROM hubbub_inbox {_WHERE}",  # noqa: S608
        msgspec.structs.astuple(key),
    )


def check(connection: sqlite3.Connection, key: Key, epoch: str, serial: int) -> None:
    """Checks that a message is not processed yet. Raises `AlreadyProcessed` or `TopicReplaced`."""
    found = position(connection, key)
    if found is None:
        return
    known, done = found
    if known != epoch:
        raise TopicReplaced(
            f"the inbox follows another epoch of {key.topic!r} by now; read the topic anew"
        )
    if done >= serial:
        raise AlreadyProcessed(
            f"message {serial} of {key.topic!r} was done already; another process uses the same "
            "inbox"
        )
