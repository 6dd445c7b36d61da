"""Runs validators on messages before they go to their channel's owner, and savers after it."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

import msgspec

from hubbub.domain.commands.mapping import from_message
from hubbub.domain.commands.objects import write_message
from hubbub.domain.commands.status import Status
from hubbub.domain.errors import HubbubError, Internal, Overloaded, ValidationFailed
from hubbub.domain.messages import Message
from hubbub.domain.rules import Rules
from hubbub.engine.storing.hooks import (
    ALL_MESSAGES,
    StoringHooks,
    collections_of,
    current_origin,
)
from hubbub.ports.bus import PublishOutcome, PublishReply
from hubbub.tasks import TaskSet

logger = logging.getLogger(__name__)

MAX_WAITING = 1000
"""Maximum number of a hub's messages that wait for their validators."""

HandOn = Callable[[Message, PublishReply], None]
Refuse = Callable[[Message, HubbubError, PublishReply], None]


class _WaitingPublication:
    __slots__ = ("collections", "hand_on", "message", "origin", "refuse", "reply")

    def __init__(
        self, message: Message, collections: tuple[str, ...], reply: PublishReply,
        hand_on: HandOn, refuse: Refuse,
    ) -> None:  # fmt: skip
        self.message = message
        self.collections = collections
        self.reply = reply
        self.hand_on = hand_on
        self.refuse = refuse
        self.origin = current_origin()


class Publications:
    """Messages of a channel keep their order: while one is validated, the others wait. Publishers
    are acknowledged after the savers ran."""

    def __init__(self, hooks: StoringHooks) -> None:
        self.hooks = hooks
        self._queues: dict[tuple[str, str], deque[_WaitingPublication]] = {}
        self._waiting: dict[str, int] = {}
        self._tasks = TaskSet()

    def concern(self, message: Message, rules: Rules) -> bool:
        """Whether the message will be stored (or retained) in a collection with hooks."""
        stored = rules.store and (message.store or rules.store_by_default) and not message.transient
        return (
            stored or (message.retain and rules.retain and bool(message.payload))
        ) and self.hooks.concern(collections_of(message.hub, message.channel))

    def publish(
        self, message: Message, reply: PublishReply, hand_on: HandOn, refuse: Refuse
    ) -> None:
        """Calls exactly one of `hand_on` and `refuse`, later."""
        hub = message.hub
        if (hub, message.channel) in current_origin().validating:
            text = f"a validator of a message of {message.channel!r} cannot store another one there"
            refuse(message, ValidationFailed(text, int(Status.NOT_AVAILABLE)), reply)
            return
        if self._waiting.get(hub, 0) >= MAX_WAITING:
            refuse(
                message,
                Overloaded(f"{MAX_WAITING} messages of hub {hub!r} wait for validators already"),
                reply,
            )
            return
        self._waiting[hub] = self._waiting.get(hub, 0) + 1
        collections = collections_of(hub, message.channel)
        waiting = _WaitingPublication(message, collections, reply, hand_on, refuse)
        queue = self._queues.setdefault((hub, message.channel), deque())
        queue.append(waiting)
        if len(queue) == 1:
            self._tasks.start(self._work(queue))

    async def _work(self, queue: deque[_WaitingPublication]) -> None:
        while queue:
            waiting = queue[0]
            message = waiting.message
            try:
                await self._submit(waiting)
            except HubbubError as error:
                waiting.refuse(message, error, waiting.reply)
            except Exception:
                logger.exception("a message could not be validated")
                waiting.refuse(message, Internal("validating the message failed"), waiting.reply)
            queue.popleft()
            self._left(message.hub)
            if not queue:
                del self._queues[message.hub, message.channel]

    async def _submit(self, waiting: _WaitingPublication) -> None:
        """Raises `ValidationFailed`."""
        message = waiting.message
        document = msgspec.structs.replace(from_message(message), transient=False)
        sender = document.publisher
        # Commands, results and documents of plugins are stored as payloads.
        is_payload = ALL_MESSAGES not in waiting.collections
        encoded = message.payload if is_payload else msgspec.json.encode(write_message(document))
        waiting.origin.enter(frozenset(((message.hub, message.channel),)))
        await self.hooks.validate(message.hub, waiting.collections, encoded, sender)

        def stored(outcome: PublishOutcome) -> None:
            if outcome.error is not None or outcome.duplicate:
                waiting.reply(outcome)
            else:
                self._tasks.start(self._saved(waiting, encoded, sender, outcome))

        waiting.hand_on(message, stored)

    async def _saved(
        self, waiting: _WaitingPublication, encoded: bytes, sender: str, outcome: PublishOutcome
    ) -> None:
        waiting.origin.enter()
        try:
            await self.hooks.saved(waiting.message.hub, waiting.collections, encoded, sender)
        finally:
            waiting.reply(outcome)

    def _left(self, hub: str) -> None:
        left = self._waiting[hub] - 1
        if left:
            self._waiting[hub] = left
        else:
            del self._waiting[hub]

    async def settle(self) -> None:
        await self._tasks.settle()
