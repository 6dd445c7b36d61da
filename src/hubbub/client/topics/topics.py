"""Topics, as a client asks for them: put, get, acknowledge, subscribe durably."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable
from typing import Literal, Unpack

import msgspec

from hubbub.client.connection.conversation import Conversation
from hubbub.client.connection.supervisor import Supervisor
from hubbub.client.envelope import PublishEnvelope, attributes_of
from hubbub.client.errors import ConnectionLost
from hubbub.client.messages import Item, Receipt, TopicMessage, from_article, publish_item
from hubbub.client.topics.reader import BATCH, WAIT_SECONDS, OnReplaced, Start, TopicReader
from hubbub.client.topics.shared import SharedReader
from hubbub.domain import notices
from hubbub.domain.errors import RequestTimeout
from hubbub.domain.notices import PublishResult
from hubbub.domain.requests import (
    Producer,
    PublishItem,
    TopicAck,
    TopicGet,
    TopicList,
    TopicSubscribe,
    TopicUnsubscribe,
)
from hubbub.domain.topics import DEFAULT_SUBSCRIPTION, SubscriptionInfo, SubscriptionOptions


class Topics:
    """`client.topics`. Requests are repeated over lost connections until the time is up."""

    def __init__(self, supervisor: Supervisor, request_timeout: float) -> None:
        self._supervisor = supervisor
        self._seconds = request_timeout
        self._producers: dict[str, _Producer] = {}

    # -- putting --------------------------------------------------------------------------------

    async def put(
        self,
        topic: str,
        data: object,
        event: str = "",
        *,
        content_type: str | None = None,
        **envelope: Unpack[PublishEnvelope],
    ) -> Receipt:
        """Store a message and answer its place once it is on disk. It is stored once, however often
        the connection breaks meanwhile; if this process crashes, nobody knows whether it was. For
        that there is `Outbox`."""
        item = publish_item(
            Item(
                topic,
                data,
                event,
                content_type,
                store=True,
                attributes=attributes_of(envelope),
                security_token=envelope.get("security_token"),
            ),
            None,
        )
        producer = self._producers.setdefault(topic, _Producer())
        try:
            async with asyncio.timeout(self._seconds), producer.turn:
                return await self._put(item, producer)
        except TimeoutError:
            raise RequestTimeout(
                f"the hub did not confirm the put to {topic!r} in {self._seconds:g} s; "
                "it may have arrived"
            ) from None

    async def _put(self, item: PublishItem, producer: _Producer) -> Receipt:
        """Whatever does not end with a receipt makes the sequence doubtful: the next put is that
        of a new producer."""
        identity, sequence = producer.id, producer.sequence + 1
        producer.renew()
        stamped = msgspec.structs.replace(item, producer=Producer(identity, sequence))
        while True:
            conversation = await self._supervisor.conversation()
            try:
                result = await _put_once(conversation, stamped)
                break
            except ConnectionLost:
                await conversation.ended()
        if result.error is not None:
            raise result.error
        producer.id, producer.sequence = identity, sequence
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
        """Make a durable subscription, or see where it stands: one that is there keeps its place.
        `start`: `new`, `first`, or the serial behind which to begin."""
        answer = await self._supervisor.call(
            lambda req_id: TopicSubscribe(topic, name, options, start, req_id),
            notices.TopicSubscribed,
        )
        return answer.subscription

    async def unsubscribe(self, topic: str, name: str = DEFAULT_SUBSCRIPTION) -> None:
        """Its place is forgotten. Raises `NotSubscribed`."""
        await self._supervisor.call(
            lambda req_id: TopicUnsubscribe(topic, name, req_id), notices.TopicUnsubscribed
        )

    async def subscriptions(self) -> list[SubscriptionInfo]:
        """The caller's own, in the whole hub."""
        answer = await self._supervisor.call(TopicList, notices.TopicSubscriptions)
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
        """The next messages that are not acknowledged; none: there is nothing (yet). `ack_up_to`
        acknowledges first."""
        answer = await self._supervisor.call(
            lambda req_id: TopicGet(topic, name, limit, wait_seconds, consumer, ack_up_to, req_id),
            notices.TopicMessages,
            wait_seconds,
        )
        return [from_article(article, name) for article in answer.messages]

    async def get_each(self, name: str = DEFAULT_SUBSCRIPTION) -> dict[str, TopicMessage | None]:
        """The next message of each topic with a subscription of this name."""
        answer = await self._supervisor.call(
            lambda req_id: TopicGet(name=name, req_id=req_id), notices.EachTopicMessages
        )
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
        """These messages are done, or all up to one. Answers the serial up to which all are."""
        wanted = tuple(serials)
        answer = await self._supervisor.call(
            lambda req_id: TopicAck(topic, name, wanted, up_to, consumer, give_back, req_id),
            notices.TopicAcked,
        )
        return answer.floor

    def reader(
        self,
        topic: str,
        name: str = DEFAULT_SUBSCRIPTION,
        *,
        skip_up_to: tuple[str, int] | None = None,
        start: Start = "new",
        options: SubscriptionOptions | None = None,
        batch: int = BATCH,
        wait_seconds: float = WAIT_SECONDS,
        on_replaced: OnReplaced = "raise",
        placed: Callable[[str, int], None] | None = None,
    ) -> TopicReader:
        """The messages of a durable subscription, one after the other, for applications that keep
        the position in a database of their own: `skip_up_to` is the epoch and serial of the last
        message that was done. `placed` is called with both where the reader begins without."""
        return TopicReader(
            self._supervisor,
            topic,
            name,
            position=skip_up_to,
            start=start,
            options=options,
            batch=batch,
            wait_seconds=wait_seconds,
            on_replaced=on_replaced,
            placed=placed,
        )

    def shared(
        self,
        topic: str,
        name: str,
        *,
        consumer: str | None = None,
        options: SubscriptionOptions | None = None,
        start: Literal["new", "first"] | int = "new",
        batch: int = BATCH,
        wait_seconds: float = WAIT_SECONDS,
    ) -> SharedReader:
        """This consumer's part of a subscription that several share: at least once, in no order."""
        return SharedReader(
            self._supervisor,
            topic,
            name,
            consumer or secrets.token_hex(8),
            options or SubscriptionOptions(shared=True),
            start,
            batch,
            wait_seconds,
        )


class _Producer:
    """Whose puts to a topic are numbered; one at a time."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.renew()

    def renew(self) -> None:
        self.id = secrets.token_hex(16)
        self.sequence = 0


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
