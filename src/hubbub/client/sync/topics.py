"""Topics, outbox and inbox for programs without asyncio: the same calls, which wait.

with connect() as client, Outbox(client, "orders.outbox") as outbox:
    outbox.put("orders", {"item": 7})
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from os import PathLike
from typing import Unpack

from hubbub.client.inbox.inbox import Inbox as AsyncInbox
from hubbub.client.messages import TopicMessage
from hubbub.client.outbox.outbox import Outbox as AsyncOutbox
from hubbub.client.outbox.sender import OnRefused
from hubbub.client.outbox.tables import Limits
from hubbub.client.sync.waiting import Blocking, Runner, passes, waits
from hubbub.client.topics.reader import ReaderOptions, SharedOptions
from hubbub.client.topics.shared import SharedReader as AsyncSharedReader
from hubbub.client.topics.topics import Topics as AsyncTopics
from hubbub.domain.topics import DEFAULT_SUBSCRIPTION


class Topics(Blocking[AsyncTopics]):
    """The topics of a hub; available as `client.topics`."""

    put = waits(AsyncTopics.put)
    subscribe = waits(AsyncTopics.subscribe)
    unsubscribe = waits(AsyncTopics.unsubscribe)
    subscriptions = waits(AsyncTopics.subscriptions)
    get = waits(AsyncTopics.get)
    get_each = waits(AsyncTopics.get_each)
    ack = waits(AsyncTopics.ack)

    def shared(
        self, topic: str, name: str, *, consumer: str | None = None, **how: Unpack[SharedOptions]
    ) -> SharedReader:
        """A consumer of a shared subscription: at least once, unordered."""
        reader = self._inner.shared(topic, name, consumer=consumer, **how)
        return SharedReader(self._runner, reader)


class SharedReader(Blocking[AsyncSharedReader]):
    """A consumer of a shared subscription: iterate over it."""

    def __iter__(self) -> Iterator[TopicMessage]:
        return self

    __exit__ = waits(AsyncSharedReader.__aexit__)
    __next__ = waits(AsyncSharedReader.__anext__)
    ack = waits(AsyncSharedReader.ack)
    give_back = waits(AsyncSharedReader.give_back)


class Outbox(Blocking[AsyncOutbox]):
    """Open when created. Close it, or use it with `with`."""

    def __init__(
        self,
        client: Runner,
        file: str | PathLike[str],
        *,
        limits: Limits | None = None,
        on_refused: OnRefused | None = None,
    ) -> None:
        async def begin() -> AsyncOutbox:
            outbox = AsyncOutbox(client.asynchronous, file, limits=limits, on_refused=on_refused)
            await outbox.open()
            return outbox

        super().__init__(client, client.run(begin()))

    put = waits(AsyncOutbox.put)
    close = waits(AsyncOutbox.close)
    put_in = passes(AsyncOutbox.put_in)
    waiting = waits(AsyncOutbox.waiting)
    drained = waits(AsyncOutbox.drained)
    refused = waits(AsyncOutbox.refused)
    forget_refused = waits(AsyncOutbox.forget_refused)
    put_again = waits(AsyncOutbox.put_again)


class Inbox(Blocking[AsyncInbox]):
    """Open when created. Close it, or use it with `with`."""

    def __init__(self, client: Runner, file: str | PathLike[str]) -> None:
        super().__init__(client, AsyncInbox(client.asynchronous, file))
        self._inner.open()

    @property
    def connection(self) -> sqlite3.Connection:
        return self._inner.connection

    def messages(
        self,
        topic: str,
        subscription: str = DEFAULT_SUBSCRIPTION,
        **how: Unpack[ReaderOptions],
    ) -> Iterator[TopicMessage]:
        reader = self._inner.reader(topic, subscription, **how)
        while True:
            for message in self._runner.run(reader.batch()):
                while message.serial > reader.position:
                    yield message

    close = waits(AsyncInbox.close)
    processing = passes(AsyncInbox.processing)
    skip = passes(AsyncInbox.skip)
    reset = passes(AsyncInbox.reset)
