"""Topics, outbox and inbox for programs without asyncio: the same calls, which wait.

with connect() as client, Outbox(client, "orders.outbox") as outbox:
    outbox.put("orders", {"item": 7})
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import AbstractContextManager
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, overload

from hubbub.client.inbox import inbox as asynchronous_inbox
from hubbub.client.messages import Receipt, TopicMessage
from hubbub.client.outbox import outbox as asynchronous_outbox
from hubbub.client.outbox.outbox import CLOSE_SECONDS
from hubbub.client.outbox.sender import OnRefused
from hubbub.client.outbox.tables import Limits, Refusal
from hubbub.client.topics import shared as asynchronous_shared
from hubbub.client.topics import topics as asynchronous_topics
from hubbub.client.topics.reader import OnReplaced, Start, TopicReader
from hubbub.domain.topics import DEFAULT_SUBSCRIPTION, SubscriptionInfo, SubscriptionOptions

if TYPE_CHECKING:
    from hubbub.client.sync import Client

Run = Callable[[Coroutine[Any, Any, Any]], Any]


class Topics:
    """`client.topics`."""

    def __init__(self, run: Run, topics: asynchronous_topics.Topics) -> None:
        self._run = run
        self._topics = topics

    def put(
        self, topic: str, data: object, event: str = "", *, content_type: str | None = None
    ) -> Receipt:
        receipt: Receipt = self._run(
            self._topics.put(topic, data, event, content_type=content_type)
        )
        return receipt

    def subscribe(
        self,
        topic: str,
        name: str = DEFAULT_SUBSCRIPTION,
        *,
        options: SubscriptionOptions | None = None,
        start: Start = "new",
    ) -> SubscriptionInfo:
        info: SubscriptionInfo = self._run(
            self._topics.subscribe(topic, name, options=options, start=start)
        )
        return info

    def unsubscribe(self, topic: str, name: str = DEFAULT_SUBSCRIPTION) -> None:
        self._run(self._topics.unsubscribe(topic, name))

    def subscriptions(self) -> list[SubscriptionInfo]:
        found: list[SubscriptionInfo] = self._run(self._topics.subscriptions())
        return found

    def get(
        self,
        topic: str,
        name: str = DEFAULT_SUBSCRIPTION,
        *,
        limit: int = 1,
        wait_seconds: float = 0.0,
        consumer: str = "",
        ack_up_to: int | None = None,
    ) -> list[TopicMessage]:
        found: list[TopicMessage] = self._run(
            self._topics.get(
                topic,
                name,
                limit=limit,
                wait_seconds=wait_seconds,
                consumer=consumer,
                ack_up_to=ack_up_to,
            )
        )
        return found

    def get_each(self, name: str = DEFAULT_SUBSCRIPTION) -> dict[str, TopicMessage | None]:
        found: dict[str, TopicMessage | None] = self._run(self._topics.get_each(name))
        return found

    def ack(
        self,
        topic: str,
        serials: Iterable[int] = (),
        name: str = DEFAULT_SUBSCRIPTION,
        *,
        up_to: int | None = None,
        consumer: str = "",
        give_back: bool = False,
    ) -> int:
        floor: int = self._run(
            self._topics.ack(
                topic, serials, name, up_to=up_to, consumer=consumer, give_back=give_back
            )
        )
        return floor

    def shared(self, topic: str, name: str, **options: Any) -> SharedReader:
        """Takes what the asynchronous one takes."""
        return SharedReader(self._run, self._topics.shared(topic, name, **options))


class SharedReader:
    """One consumer of a subscription that several share: iterate over it."""

    def __init__(self, run: Run, reader: asynchronous_shared.SharedReader) -> None:
        self._run = run
        self._reader = reader

    def __enter__(self) -> SharedReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._reader.__aexit__(None, None, None))

    def __iter__(self) -> Iterator[TopicMessage]:
        return self

    def __next__(self) -> TopicMessage:
        message: TopicMessage = self._run(self._reader.__anext__())
        return message

    def ack(self, *messages: TopicMessage) -> None:
        self._run(self._reader.ack(*messages))

    def give_back(self, *messages: TopicMessage) -> None:
        self._run(self._reader.give_back(*messages))


class Outbox:
    """Open when it is made. Close it, or use it with `with`."""

    def __init__(
        self,
        client: Client,
        file: str | PathLike[str],
        *,
        limits: Limits | None = None,
        on_refused: OnRefused | None = None,
    ) -> None:
        self._run = client.run

        async def begin() -> asynchronous_outbox.Outbox:
            outbox = asynchronous_outbox.Outbox(
                client.asynchronous, file, limits=limits, on_refused=on_refused
            )
            await outbox.open()
            return outbox

        self._outbox: asynchronous_outbox.Outbox = self._run(begin())

    def __enter__(self) -> Outbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self, wait_seconds: float = CLOSE_SECONDS) -> None:
        self._run(self._outbox.close(wait_seconds))

    @overload
    def put(
        self,
        topic: str,
        data: object,
        event: str = "",
        *,
        content_type: str | None = None,
        confirm: Literal[True],
    ) -> Receipt: ...
    @overload
    def put(
        self,
        topic: str,
        data: object,
        event: str = "",
        *,
        content_type: str | None = None,
        confirm: bool = False,
    ) -> Receipt | None: ...

    def put(
        self,
        topic: str,
        data: object,
        event: str = "",
        *,
        content_type: str | None = None,
        confirm: bool = False,
    ) -> Receipt | None:
        receipt: Receipt | None = self._run(
            self._outbox.put(topic, data, event, content_type=content_type, confirm=confirm)
        )
        return receipt

    def put_in(
        self,
        connection: sqlite3.Connection,
        topic: str,
        data: object,
        event: str = "",
        *,
        content_type: str | None = None,
    ) -> None:
        self._outbox.put_in(connection, topic, data, event, content_type=content_type)

    def waiting(self) -> int:
        count: int = self._run(self._outbox.waiting())
        return count

    def drained(self) -> None:
        self._run(self._outbox.drained())

    def refused(self) -> list[Refusal]:
        found: list[Refusal] = self._run(self._outbox.refused())
        return found

    def forget_refused(self, refusal: Refusal) -> None:
        self._run(self._outbox.forget_refused(refusal))

    def put_again(self, refusal: Refusal) -> None:
        self._run(self._outbox.put_again(refusal))


class Inbox:
    """Open when it is made. Close it, or use it with `with`."""

    def __init__(self, client: Client, file: str | PathLike[str]) -> None:
        self._run = client.run
        self._inbox = asynchronous_inbox.Inbox(client.asynchronous, file)
        self._inbox.open()

    def __enter__(self) -> Inbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._run(self._inbox.close())

    @property
    def connection(self) -> sqlite3.Connection:
        return self._inbox.connection

    def messages(
        self,
        topic: str,
        subscription: str = DEFAULT_SUBSCRIPTION,
        *,
        start: Start = "new",
        options: SubscriptionOptions | None = None,
        on_replaced: OnReplaced = "raise",
    ) -> Iterator[TopicMessage]:
        reader: TopicReader = self._inbox.reader(
            topic, subscription, start=start, options=options, on_replaced=on_replaced
        )
        while True:
            for message in self._run(reader.batch()):
                while message.serial > reader.position:
                    yield message

    def processing(
        self, *messages: TopicMessage, connection: sqlite3.Connection | None = None
    ) -> AbstractContextManager[sqlite3.Connection]:
        return self._inbox.processing(*messages, connection=connection)

    def skip(self, *messages: TopicMessage) -> None:
        self._inbox.skip(*messages)

    def reset(self, topic: str, subscription: str = DEFAULT_SUBSCRIPTION) -> None:
        self._inbox.reset(topic, subscription)
