"""Reads a durable subscription in order, with one reader that tracks its own position.

The hub delivers unacknowledged messages. The reader acknowledges processed messages when it fetches
more, and skips redeliveries of messages that were processed before a crash.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable
from typing import Literal, TypedDict

from hubbub.client.connection.backoff import ReconnectBackoff
from hubbub.client.connection.conversation import Conversation
from hubbub.client.connection.supervisor import Supervisor
from hubbub.client.errors import ConnectionLost, TopicReplaced
from hubbub.client.messages import TopicMessage, from_article
from hubbub.domain import notices
from hubbub.domain.errors import BadRequest, HubbubError
from hubbub.domain.requests import TopicAck, TopicGet, TopicSubscribe, TopicUnsubscribe
from hubbub.domain.topics import SubscriptionInfo, SubscriptionOptions

logger = logging.getLogger("hubbub.client")

BATCH = 100
WAIT_SECONDS = 30.0
TELL_SECONDS = 5.0
"""A slow reader acknowledges before the end of its batch, so that its progress is visible."""

OnReplaced = Literal["raise", "reset"]
Start = Literal["new", "first"] | int


class SharedOptions(TypedDict, total=False):
    """How messages of a durable subscription are fetched. The subscription is created if necessary,
    with these `options`; `start` is then its position: `new`, `first`, or a serial after which to
    begin."""

    start: Start
    options: SubscriptionOptions | None
    batch: int
    wait_seconds: float


class ReaderOptions(SharedOptions, total=False):
    """`on_replaced`: the reaction if the topic was deleted and created again."""

    on_replaced: OnReplaced


class TopicReader:
    """Iterate over it and call `done` for each message, in order: unfinished messages are repeated.

    A topic that was deleted and created again restarts its serials. The position is then invalid:
    raises `TopicReplaced`, or with `on_replaced="reset"` starts over with the new topic.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        topic: str,
        name: str,
        position: tuple[str, int] | None,
        placed: Callable[[str, int], None] | None,
        how: ReaderOptions,
    ) -> None:
        self.topic = topic
        self.name = name
        self.epoch = position[0] if position else None
        self.position = position[1] if position else 0
        """Everything up to this serial is processed."""
        self._supervisor = supervisor
        self._start: Start = how.get("start", "new")
        self._options = how.get("options")
        self._batch = how.get("batch", BATCH)
        self._wait_seconds = how.get("wait_seconds", WAIT_SECONDS)
        self._on_replaced = how.get("on_replaced", "raise")
        self._placed = placed
        self._acknowledged = 0
        self._told_at = time.monotonic()
        self._known: Conversation | None = None
        self._messages: list[TopicMessage] = []
        self._last: TopicMessage | None = None
        self._backoff = ReconnectBackoff()

    # -- for the application --------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[TopicMessage]:
        return self

    async def __anext__(self) -> TopicMessage:
        (message, *_) = await self.batch()
        if message is self._last:
            logger.warning(
                "message %d of %r was not processed and will be delivered again",
                message.serial,
                self.topic,
            )
        self._last = message
        return message

    async def batch(self) -> list[TopicMessage]:
        """The next messages, at least one, as soon as there is one."""
        while True:
            self._messages = [
                message for message in self._messages if message.serial > self.position
            ]
            if not self._messages:
                self._messages = await self._fetch()
            elif time.monotonic() - self._told_at > TELL_SECONDS:
                await self.close()
            else:
                return list(self._messages)

    def done(self, message: TopicMessage) -> None:
        """Marks the message and all before it as processed."""
        self.position = max(self.position, message.serial)

    def check_turn(self, message: TopicMessage) -> None:
        """Raises ValueError if an earlier message is not processed."""
        for other in self._messages:
            if self.position < other.serial < message.serial:
                raise ValueError(
                    f"message {other.serial} of {self.topic!r} comes before {message.serial} and "
                    "is not done"
                )

    async def close(self) -> None:
        """Acknowledges processed messages, if the hub is reachable. Otherwise the next reader with
        this position does."""
        self._told_at = time.monotonic()
        if self.position > self._acknowledged and self._supervisor.connected and self._known:
            with contextlib.suppress(HubbubError):
                acknowledge = TopicAck(self.topic, self.name, up_to=self.position)
                await self._supervisor.call(acknowledge, notices.TopicAcked)
                self._acknowledged = acknowledge.up_to or 0

    # -- the hub --------------------------------------------------------------------------------

    async def _fetch(self) -> list[TopicMessage]:
        while True:
            conversation = await self._supervisor.conversation()
            try:
                if conversation is not self._known:
                    await self._subscribe(conversation)
                return await self._get(conversation)
            except ConnectionLost:
                await conversation.ended()
            except HubbubError as error:
                if not error.retry:
                    raise
                await asyncio.sleep(self._backoff.next(error))

    async def _get(self, conversation: Conversation) -> list[TopicMessage]:
        done = self.position
        ack_up_to = done if done > self._acknowledged else None
        get = TopicGet(self.topic, self.name, self._batch, self._wait_seconds, ack_up_to=ack_up_to)
        answer = await conversation.ask(get, notices.TopicMessages, self._wait_seconds)
        self._acknowledged = max(self._acknowledged, done)
        self._told_at = time.monotonic()
        self._backoff.reset()
        return [from_article(article, self.name, self.epoch or "") for article in answer.messages]

    async def _subscribe(self, conversation: Conversation) -> None:
        """Called on every connection, since the topic may have been replaced."""
        if self.epoch is None:
            info = await self._ask(conversation, self._start)
            self._place(info)
        else:
            info = await self._check(conversation)
        self._acknowledged = info.floor
        self._known = conversation

    async def _check(self, conversation: Conversation) -> SubscriptionInfo:
        """Continues after the position, if it is still valid."""
        info: SubscriptionInfo | None = None
        with contextlib.suppress(BadRequest):  # the topic is not that long
            info = await self._ask(conversation, self.position)
        if info is not None and info.epoch == self.epoch and self.position <= info.head:
            return info
        if info is not None and info.new:  # at a place that means nothing
            unsubscribe = TopicUnsubscribe(self.topic, self.name)
            await conversation.ask(unsubscribe, notices.TopicUnsubscribed)
        if self._on_replaced == "raise":
            raise TopicReplaced(
                f"{self.topic!r} was deleted and made anew: position {self.position} means "
                "nothing there. Reset the position, or read with on_replaced='reset'"
            )
        logger.warning("%r was deleted and created again; reading from its start", self.topic)
        info = await self._ask(conversation, "first")
        self._place(info)
        return info

    async def _ask(self, conversation: Conversation, start: Start) -> SubscriptionInfo:
        subscribe = TopicSubscribe(self.topic, self.name, self._options, start)
        return (await conversation.ask(subscribe, notices.TopicSubscribed)).subscription

    def _place(self, info: SubscriptionInfo) -> None:
        self.epoch, self.position = info.epoch, info.floor
        self._messages = []
        if self._placed is not None:
            self._placed(info.epoch, info.floor)
