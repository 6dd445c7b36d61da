"""Requests of a client about topics: put, get, acknowledge, subscribe durably."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable
from typing import Unpack

import msgspec

from hubbub.client.connection.conversation import Conversation
from hubbub.client.connection.supervisor import Supervisor
from hubbub.client.errors import ConnectionLost
from hubbub.client.messages import (
    PutOptions,
    Receipt,
    TopicMessage,
    from_article,
    item_of,
    publish_item,
)
from hubbub.client.numbering import NumberedPuts
from hubbub.client.topics.reader import ReaderOptions, SharedOptions, Start, TopicReader
from hubbub.client.topics.shared import SharedReader
from hubbub.domain import notices
from hubbub.domain.errors import RequestTimeout
from hubbub.domain.notices import PublishResult
from hubbub.domain.requests import (
    PublishItem,
    TopicAck,
    TopicGet,
    TopicList,
    TopicSubscribe,
    TopicUnsubscribe,
)
from hubbub.domain.topics import DEFAULT_SUBSCRIPTION, SubscriptionInfo, SubscriptionOptions


class Topics:
    """The topics of a hub; available as `client.topics`. Requests are repeated after lost
    connections until they time out."""

    def __init__(self, supervisor: Supervisor, request_timeout: float) -> None:
        self._supervisor = supervisor
        self._seconds = request_timeout
        self._producers: dict[str, NumberedPuts] = {}

    # -- putting --------------------------------------------------------------------------------

    async def put(
        self,
        topic: str,
        data: object,
        event: str = "",
        **options: Unpack[PutOptions],
    ) -> Receipt:
        """Stores a message and returns its position once it is on disk. It is stored once, however
        often the connection breaks; if this process crashes, the result is unknown. Use an `Outbox`
        to survive that."""
        item = publish_item(item_of(topic, data, event, options | {"store": True}), None)
        producer = self._producers.setdefault(topic, NumberedPuts())
        try:
            async with asyncio.timeout(self._seconds), producer.turn:
                return await self._put(item, producer)
        except TimeoutError:
            raise RequestTimeout(
                f"the hub did not confirm the put to {topic!r} in {self._seconds:g} s; "
                "it may have arrived"
            ) from None

    async def _put(self, item: PublishItem, producer: NumberedPuts) -> Receipt:
        with producer.next() as stamp:
            stamped = msgspec.structs.replace(item, producer=stamp)
            while True:
                conversation = await self._supervisor.conversation()
                try:
                    result = await _put_once(conversation, stamped)
                    break
                except ConnectionLost:
                    await conversation.ended()
            if result.error is not None:
                raise result.error
        return Receipt(result.message_id or "", result.serial, result.duplicate)

    # -- subscriptions --------------------------------------------------------------------------

    async def subscribe(
        self,
        topic: str,
        name: str = DEFAULT_SUBSCRIPTION,
        *,
        options: SubscriptionOptions | None = None,
        start: Start = "new",
    ) -> SubscriptionInfo:
        """Creates a durable subscription, or returns the state of an existing one, which keeps its
        cursor. `start`: `new`, `first`, or the serial after which to begin."""
        request = TopicSubscribe(topic, name, options, start)
        return (await self._supervisor.call(request, notices.TopicSubscribed)).subscription

    async def unsubscribe(self, topic: str, name: str = DEFAULT_SUBSCRIPTION) -> None:
        """Deletes a durable subscription and its cursor. Raises `NotSubscribed`."""
        await self._supervisor.call(TopicUnsubscribe(topic, name), notices.TopicUnsubscribed)

    async def subscriptions(self) -> list[SubscriptionInfo]:
        """The caller's own subscriptions in the hub."""
        answer = await self._supervisor.call(TopicList(), notices.TopicSubscriptions)
        return list(answer.subscriptions)

    # -- getting --------------------------------------------------------------------------------

    async def get(
        self,
        topic: str,
        name: str = DEFAULT_SUBSCRIPTION,
        *,
        limit: int = 1,
        wait_seconds: float = 0.0,
        consumer: str = "",
        ack_up_to: int | None = None,
    ) -> list[TopicMessage]:
        """The next unacknowledged messages; empty if there are none yet. `ack_up_to` acknowledges
        first."""
        request = TopicGet(topic, name, limit, wait_seconds, consumer, ack_up_to)
        answer = await self._supervisor.call(request, notices.TopicMessages, wait_seconds)
        return [from_article(article, name) for article in answer.messages]

    async def get_each(self, name: str = DEFAULT_SUBSCRIPTION) -> dict[str, TopicMessage | None]:
        """The next message of each topic with a subscription of this name."""
        answer = await self._supervisor.call(TopicGet(name=name), notices.EachTopicMessages)
        return {
            topic: from_article(found.messages[0], name) if found.messages else None
            for topic, found in answer.topics.items()
        }

    async def ack(
        self,
        topic: str,
        serials: Iterable[int] = (),
        name: str = DEFAULT_SUBSCRIPTION,
        *,
        up_to: int | None = None,
        consumer: str = "",
        give_back: bool = False,
    ) -> int:
        """Acknowledges these messages, or all up to a serial. Returns the serial up to which all
        messages are acknowledged."""
        request = TopicAck(topic, name, tuple(serials), up_to, consumer, give_back)
        return (await self._supervisor.call(request, notices.TopicAcked)).floor

    def reader(
        self,
        topic: str,
        name: str = DEFAULT_SUBSCRIPTION,
        *,
        skip_up_to: tuple[str, int] | None = None,
        placed: Callable[[str, int], None] | None = None,
        **how: Unpack[ReaderOptions],
    ) -> TopicReader:
        """Reads a durable subscription in order, for applications that store the position in their
        own database: `skip_up_to` is the epoch and serial of the last processed message. Without
        it, `placed` is called with the start position."""
        return TopicReader(self._supervisor, topic, name, skip_up_to, placed, how)

    def shared(
        self, topic: str, name: str, *, consumer: str | None = None, **how: Unpack[SharedOptions]
    ) -> SharedReader:
        """A consumer of a shared subscription: at least once, unordered."""
        return SharedReader(self._supervisor, topic, name, consumer or secrets.token_hex(8), how)


async def _put_once(conversation: Conversation, item: PublishItem) -> PublishResult:
    """Raises `ConnectionLost` if the connection ends first."""
    answer: asyncio.Future[PublishResult] = asyncio.get_running_loop().create_future()

    def ended() -> None:
        if not answer.done():
            answer.set_exception(ConnectionLost("the connection to the hub was lost"))
            answer.exception()  # sending may have failed with it already

    def answered(result: PublishResult) -> None:
        if not answer.done():
            answer.set_result(result)

    forget = conversation.call_at_end(ended)
    try:
        await conversation.put([(item, answered)])
        return await answer
    finally:
        forget()
