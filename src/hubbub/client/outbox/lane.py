"""Sends one topic's messages from the outbox to the hub.

A lane opens the producer on every connection. From then on the hub rejects late puts of older
connections, so the known state of a message stays true. Puts are pipelined; after the first error
the lane stops, waits for all responses, and continues after the last put that the hub has on disk.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from functools import partial
from typing import Protocol

import msgspec

from hubbub.client.connection.backoff import ReconnectBackoff
from hubbub.client.connection.conversation import Conversation
from hubbub.client.envelope import size_of
from hubbub.client.errors import ConnectionLost, OutboxMismatch
from hubbub.client.local_file import FileThread
from hubbub.client.outbox import tables
from hubbub.client.outbox.tables import QueuedMessage
from hubbub.domain import errors
from hubbub.domain.errors import HubbubError
from hubbub.domain.notices import ProducerOpened, PublishResult
from hubbub.domain.requests import Producer, ProducerOpen, PublishItem

logger = logging.getLogger("hubbub.client")

FRAME_BYTES = 64 * 1024
SMALLEST_FRAME_BYTES = 512
FRAME_ITEMS = 250
WIDEST = 2000
"""The most messages of a lane in flight."""
PATIENCE = 3
"""How often a message that the hub fails to process is tried."""
CALM_AFTER = 100
"""After this many successes one at a time, messages are pipelined again."""
CUT_PATIENCE = 2
"""How often a message is tried whose connection ends, while it is alone in flight, as if it were
too large."""

_FATAL = (
    errors.ProducerFenced,
    errors.UnknownEvent,  # a hub without topics
    OutboxMismatch,
)
_NOT_OF_THE_MESSAGE = (
    errors.NotAuthenticated,
    errors.InvalidToken,
    errors.HubNotFound,
    errors.SequenceGap,
    errors.SequenceReused,
)
_REFUSED = (errors.BadRequest, errors.Denied, errors.NotFound, errors.Conflict)


class LaneContext(Protocol):
    """The outbox, as seen by its lanes."""

    producer: str
    file: FileThread
    careful: bool
    """Whether a message seems to be too large for a connection: messages are then sent one at a
    time."""
    turn: asyncio.Lock
    """Held by the lane that may send in careful mode."""
    opening: asyncio.Semaphore
    """Limits how many lanes open their producer concurrently."""
    answer_seconds: float
    frame_bytes: int
    """The most payload bytes in one frame, unless a single message is larger."""

    async def conversation(self) -> Conversation: ...
    def confirmed(self, place: int, result: PublishResult) -> None: ...
    def forget(self, places: list[int]) -> None: ...
    def refused_by_hub(self, refusal: tables.Refusal, error: HubbubError) -> None: ...
    def fail(self, error: HubbubError) -> None: ...


class _Suspect(Exception):
    """The hub seems to refuse this message permanently."""

    def __init__(self, message: QueuedMessage, error: HubbubError) -> None:
        super().__init__()
        self.message = message
        self.error = error


class Lane:
    def __init__(self, topic: str, context: LaneContext) -> None:
        self._topic = topic
        self._context = context
        self._news = asyncio.Event()
        self._backoff = ReconnectBackoff(0.05, 5.0)
        self._width = WIDEST
        self._failures: Counter[int] = Counter()
        """Failures by place that may be due to the message itself."""
        self._suspect: _Suspect | None = None
        self._last_at_opening = 0
        self._alone = 0
        self._begin()

    def stir(self) -> None:
        """Wakes the lane: a message, a response or the end of the connection must be handled."""
        self._news.set()

    async def run(self) -> None:
        """Runs until the lane cannot continue."""
        while True:
            conversation = await self._context.conversation()
            forget = conversation.call_at_end(self.stir)
            self._begin()
            try:
                await self._serve(conversation)
            except ConnectionLost:
                self._lost(await conversation.ended())
            except _Suspect as suspect:
                self._suspect = suspect
            except _FATAL as error:
                self._context.fail(error)
                return
            except HubbubError as error:
                logger.info("putting to %r again: %s", self._topic, error.message)
                await asyncio.sleep(self._backoff.next(error))
            finally:
                self._note_confirmed()
                forget()
                if self._holds_turn:
                    self._context.turn.release()

    def _begin(self) -> None:
        self._under_way: dict[int, QueuedMessage] = {}
        """Messages in flight by sequence number."""
        self._troubles: dict[int, tuple[QueuedMessage, HubbubError]] = {}
        self._done: list[int] = []
        self._sent = 0
        self._holds_turn = False

    # -- one connection -------------------------------------------------------------------------

    async def _serve(self, conversation: Conversation) -> None:
        self._news.set()
        fence: int | None = None
        while True:
            await self._wait()
            self._note_confirmed()
            if conversation.over:
                raise ConnectionLost("the connection to the hub was lost")
            if self._troubles:
                if not self._under_way:
                    self._judge()
                continue
            following = await self._following(fence)
            if following and fence is None:
                fence = await self._open(conversation)
                self._news.set()  # what waits may have changed
                continue
            await self._send(conversation, following, fence or 0)

    async def _wait(self) -> None:
        """Raises `RequestTimeout` if the hub owes responses and is silent."""
        seconds = self._context.answer_seconds if self._under_way else None
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            raise errors.RequestTimeout(
                f"the hub did not answer a put to {self._topic!r} in {seconds:g} s"
            ) from None
        self._news.clear()

    async def _open(self, conversation: Conversation) -> int:
        """Takes over the producer; returns the fence, 0 if the hub does not permit it."""
        context = self._context
        try:
            async with context.opening:
                opened = await conversation.ask(
                    ProducerOpen(self._topic, context.producer), ProducerOpened
                )
        except HubbubError as error:
            if not _refuses(error):
                raise
            # A put that was stored before can still be confirmed. All others tell what is wrong.
            self._width = 1
            await self._drop_suspect(None)
            return 0
        last = self._last_at_opening = opened.sequence
        await context.file.write(lambda file: tables.reconcile(file, self._topic, last))
        await self._drop_suspect(last)
        return opened.fence

    async def _drop_suspect(self, last: int | None) -> None:
        """No put of an older connection can be stored any more: messages not stored by now were
        refused permanently."""
        suspect, self._suspect = self._suspect, None
        if suspect is None or (last is not None and suspect.message.sequence <= last):
            return
        place, error = suspect.message.place, suspect.error
        refusal = await self._context.file.write(lambda file: tables.refuse(file, place, error))
        self._context.careful = False  # this was the reason
        if refusal is not None:
            self._failures.pop(place, None)
            self._context.refused_by_hub(refusal, error)

    # -- out ------------------------------------------------------------------------------------

    async def _following(self, fence: int | None) -> list[QueuedMessage]:
        """The messages that may be sent now, in order."""
        width = 1 if self._context.careful or fence == 0 else self._width
        room = min(width - len(self._under_way), FRAME_ITEMS)
        if room <= 0:
            return []
        return await self._context.file.read(
            lambda file: tables.waiting(file, self._topic, self._sent, room)
        )

    async def _send(
        self, conversation: Conversation, following: list[QueuedMessage], fence: int
    ) -> None:
        if not following:
            return
        if self._context.careful and not self._holds_turn:
            await self._context.turn.acquire()
            self._holds_turn = True
            following = following[:1]
        frame: list[QueuedMessage] = []
        size = 0
        for message in following:
            size += size_of(message.item)
            if frame and size > self._context.frame_bytes:
                break
            frame.append(message)
        self._sent = frame[-1].sequence
        self._under_way.update((message.sequence, message) for message in frame)
        producer = self._context.producer
        await conversation.put(
            (_item(message, producer, fence), partial(self._answered, message, self._under_way))
            for message in frame
        )
        self._news.set()  # there may be room for more

    # -- back -----------------------------------------------------------------------------------

    def _answered(
        self, message: QueuedMessage, under_way: dict[int, QueuedMessage], result: PublishResult
    ) -> None:
        del under_way[message.sequence]
        if under_way is not self._under_way:  # it was given up on
            return
        if result.error is not None:
            self._troubles[message.sequence] = message, result.error
        else:
            self._done.append(message.place)
            self._context.confirmed(message.place, result)
        self._news.set()

    def _note_confirmed(self) -> None:
        if self._done:
            self._context.forget(self._done)
            self._width = min(self._width + len(self._done), WIDEST)
            self._failures.clear()
            self._backoff.reset()
            self._done = []
        if self._holds_turn and not self._under_way:
            self._context.turn.release()
            self._holds_turn = False
            self._alone += 1
            if self._alone >= CALM_AFTER:  # whatever it was, it is over
                self._context.careful = False

    def _judge(self) -> None:
        """The first failure caused the later ones. Raises the error that determines the
        reaction."""
        message, error = self._troubles[min(self._troubles)]
        if isinstance(error, errors.SequenceReused):
            raise self._explain_reuse(message, error)
        if isinstance(error, errors.Limited):
            self._width = max(1, self._width // 2)
        if _refuses(error):
            raise _Suspect(message, error)
        of_the_message = not isinstance(error, (*_FATAL, *_NOT_OF_THE_MESSAGE))
        if not error.retry and of_the_message and self._fails_again(message) >= PATIENCE:
            raise _Suspect(message, error)
        raise error

    def _explain_reuse(self, message: QueuedMessage, error: HubbubError) -> HubbubError:
        """Another process put under this producer, since it was opened here or before."""
        if message.sequence > self._last_at_opening:
            return errors.ProducerFenced(f"another process uses this outbox: {error.message}")
        return OutboxMismatch(
            f"the outbox is a copy, or another one of it was used: {error.message}"
        )

    def _lost(self, why: HubbubError) -> None:
        """The connection ended. If because of the rate, slows down; if because of a message that is
        too large, isolates it."""
        if isinstance(why, errors.Limited):
            self._width = max(1, self._width // 4)
        if not isinstance(why, errors.TooLarge) or not self._under_way:
            return
        context = self._context
        if not self._holds_turn or len(self._under_way) > 1:
            if not context.careful:  # a frame of many may be too large, too
                context.frame_bytes = max(context.frame_bytes // 2, SMALLEST_FRAME_BYTES)
            context.careful = True
            self._alone = 0
            return
        (message,) = self._under_way.values()
        if self._fails_again(message) >= CUT_PATIENCE:
            self._suspect = _Suspect(message, why)

    def _fails_again(self, message: QueuedMessage) -> int:
        """Counts a failure that may be due to the message; returns how many there were."""
        self._failures[message.place] += 1
        return self._failures[message.place]


def _refuses(error: HubbubError) -> bool:
    """Whether the hub will never accept this message."""
    return isinstance(error, _REFUSED) and not isinstance(error, (*_FATAL, *_NOT_OF_THE_MESSAGE))


def _item(message: QueuedMessage, producer: str, fence: int) -> PublishItem:
    stamp = Producer(producer, message.sequence, fence)
    return msgspec.structs.replace(message.item, producer=stamp)
