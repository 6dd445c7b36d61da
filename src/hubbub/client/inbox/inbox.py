"""An inbox: messages whose effects happen once, whatever crashes.

    async with connect() as client, Inbox(client, "billing.db") as inbox:
        async for message in inbox.messages("orders", "billing"):
            with inbox.processing(message) as transaction:
                transaction.execute("INSERT INTO bills VALUES (?)", (message.data["item"],))

The application's work and the position of the message are committed in one transaction, in the
application's own database. The hub learns of it later. What it hands out again because it has not
learned of it yet is left out.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Unpack

from hubbub.client.client import Client
from hubbub.client.inbox import tables
from hubbub.client.inbox.tables import Key
from hubbub.client.local_file import clear_errors, open_file, transaction
from hubbub.client.messages import TopicMessage
from hubbub.client.topics.reader import ReaderOptions, TopicReader
from hubbub.domain.topics import DEFAULT_SUBSCRIPTION


class Inbox:
    """Use it with `async with`. `file` is the application's own SQLite database, or a new one.

    Exactly-once and ordered processing holds for one inbox per subscription.
    """

    def __init__(self, client: Client, file: str | PathLike[str]) -> None:
        self._client = client
        self._path = Path(file)
        self._readers: dict[Key, TopicReader] = {}
        self._own: sqlite3.Connection | None = None

    async def __aenter__(self) -> Inbox:
        self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def open(self) -> None:
        """Raises `FileUnusable`."""
        with clear_errors(self._path):
            self._own = open_file(self._path)
            with transaction(self._own):
                tables.prepare(self._own)

    async def close(self) -> None:
        """Acknowledges processed messages, if the hub is reachable."""
        readers, self._readers = self._readers, {}
        for reader in readers.values():
            await reader.close()
        own, self._own = self._own, None
        if own is not None:
            own.close()

    @property
    def connection(self) -> sqlite3.Connection:
        """The inbox's connection to the file, for reading between transactions."""
        assert self._own is not None, "the inbox is not open"
        return self._own

    # -- reading --------------------------------------------------------------------------------

    async def messages(
        self,
        topic: str,
        subscription: str = DEFAULT_SUBSCRIPTION,
        **how: Unpack[ReaderOptions],
    ) -> AsyncIterator[TopicMessage]:
        """Yields the messages of a durable subscription in order. The subscription is created if
        necessary; `start` then sets its position. Unprocessed messages are repeated.

        Raises `TopicReplaced` if the topic was deleted and created again; with
        `on_replaced="reset"`, starts over with the new topic.
        """
        async for message in self.reader(topic, subscription, **how):
            yield message

    def reader(
        self,
        topic: str,
        subscription: str = DEFAULT_SUBSCRIPTION,
        **how: Unpack[ReaderOptions],
    ) -> TopicReader:
        """The reader that `messages` iterates over. Its `batch()` allows processing several
        messages in one transaction."""
        key = Key(self._client.hub, topic, subscription)

        def placed(epoch: str, serial: int) -> None:
            with clear_errors(self._path), transaction(self.connection):
                tables.place(self.connection, key, epoch, serial)

        with clear_errors(self._path):
            position = tables.position(self.connection, key)
        self._readers[key] = reader = self._client.topics.reader(
            topic, subscription, skip_up_to=position, placed=placed, **how
        )
        return reader

    # -- doing ----------------------------------------------------------------------------------

    @contextmanager
    def processing(
        self, *messages: TopicMessage, connection: sqlite3.Connection | None = None
    ) -> Iterator[sqlite3.Connection]:
        """A transaction in which the application processes the messages. Leaving the block commits
        the work and their position together; an exception rolls both back. `connection` may be one
        of the application's own to the same database.

        Raises `AlreadyProcessed` if another process was faster, and ValueError if an earlier
        message is not processed or a transaction is already open.
        """
        first, last = messages[0], messages[-1]
        key = Key(self._client.hub, first.channel, first.subscription)
        reader = self._readers[key]
        reader.check_turn(first)
        used = connection or self.connection
        if used.in_transaction:
            raise ValueError(
                "a transaction is open on this connection; end it first, or use an inbox for each "
                "of the messages that are done at the same time"
            )
        with transaction(used) as open_transaction:
            tables.check(open_transaction, key, first.epoch, first.serial)
            yield open_transaction
            tables.place(open_transaction, key, last.epoch, last.serial)
        reader.done(last)

    def skip(self, *messages: TopicMessage) -> None:
        """Skips messages that the application cannot process."""
        with self.processing(*messages):
            pass

    def reset(self, topic: str, subscription: str = DEFAULT_SUBSCRIPTION) -> None:
        """Discards the position: the next reader begins where the hub says. For a topic that was
        deleted and created again."""
        key = Key(self._client.hub, topic, subscription)
        with clear_errors(self._path), transaction(self.connection):
            tables.forget(self.connection, key)
