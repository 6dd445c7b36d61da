"""One consumer of a shared durable subscription.

Each message goes to one consumer, under a lease. If a consumer crashes before acknowledging,
another one gets the message: at least once, unordered.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from hubbub.client.connection.backoff import ReconnectBackoff
from hubbub.client.connection.supervisor import Supervisor
from hubbub.client.messages import TopicMessage, from_article
from hubbub.client.topics.reader import BATCH, WAIT_SECONDS, SharedOptions, Start
from hubbub.domain import notices
from hubbub.domain.errors import HubbubError
from hubbub.domain.requests import TopicAck, TopicGet, TopicSubscribe
from hubbub.domain.topics import SubscriptionOptions


class SharedReader:
    """Created by `client.topics.shared`. Iterate over it, and `ack` or `give_back` each message.
    Leaving `async with` returns unacknowledged messages."""

    def __init__(
        self,
        supervisor: Supervisor,
        topic: str,
        name: str,
        consumer: str,
        how: SharedOptions,
    ) -> None:
        self.topic = topic
        self.name = name
        self.consumer = consumer
        self._supervisor = supervisor
        self._options = how.get("options") or SubscriptionOptions(shared=True)
        self._start: Start = how.get("start", "new")
        self._batch = how.get("batch", BATCH)
        self._wait_seconds = how.get("wait_seconds", WAIT_SECONDS)
        self._subscribed = False
        self._fetched: deque[TopicMessage] = deque()
        self._held: set[int] = set()
        self._backoff = ReconnectBackoff()

    async def __aenter__(self) -> SharedReader:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._held and self._supervisor.connected:
            await self._acknowledge(self._held, give_back=True)

    def __aiter__(self) -> AsyncIterator[TopicMessage]:
        return self

    async def __anext__(self) -> TopicMessage:
        """Continues after lost connections and other temporary errors."""
        while not self._fetched:
            try:
                self._fetched.extend(await self.get(self._batch, self._wait_seconds))
                self._backoff.reset()
            except HubbubError as error:
                if not error.retry:
                    raise
                await asyncio.sleep(self._backoff.next(error))
        return self._fetched.popleft()

    async def get(self, limit: int = 1, wait_seconds: float = 0.0) -> list[TopicMessage]:
        """Messages leased to this consumer."""
        await self.open()
        get = TopicGet(self.topic, self.name, limit, wait_seconds, self.consumer)
        answer = await self._supervisor.call(get, notices.TopicMessages, wait_seconds)
        found = [from_article(article, self.name) for article in answer.messages]
        self._held.update(message.serial for message in found)
        return found

    async def open(self) -> None:
        """Subscribes, unless it already has."""
        if not self._subscribed:
            subscribe = TopicSubscribe(self.topic, self.name, self._options, self._start)
            await self._supervisor.call(subscribe, notices.TopicSubscribed)
            self._subscribed = True

    async def ack(self, *messages: TopicMessage) -> None:
        """Acknowledges processed messages, whichever consumer holds them."""
        await self._acknowledge({message.serial for message in messages}, give_back=False)

    async def give_back(self, *messages: TopicMessage) -> None:
        """Returns unprocessed messages: the hub may deliver them to another consumer at once."""
        await self._acknowledge({message.serial for message in messages}, give_back=True)

    async def _acknowledge(self, serials: set[int], give_back: bool) -> None:
        wanted = tuple(sorted(serials))
        acknowledge = TopicAck(self.topic, self.name, wanted, None, self.consumer, give_back)
        await self._supervisor.call(acknowledge, notices.TopicAcked)
        self._held.difference_update(wanted)
