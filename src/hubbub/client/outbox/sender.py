"""The sending side of an outbox: sends messages in the file, detects those that other processes put
there, and reports receipts and refusals to the application."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
from collections.abc import Callable

from hubbub.client.client import Client
from hubbub.client.connection.conversation import Conversation
from hubbub.client.errors import OutboxMismatch
from hubbub.client.local_file import FileThread
from hubbub.client.messages import Receipt
from hubbub.client.outbox import tables
from hubbub.client.outbox.lane import FRAME_BYTES, Lane
from hubbub.client.outbox.tables import Refusal
from hubbub.domain.errors import HubbubError, ProducerFenced
from hubbub.domain.notices import PublishResult

logger = logging.getLogger("hubbub.client")

POLL_SECONDS = 0.1
HURRY_SECONDS = 0.005
HURRIES = 100
OPENING_AT_ONCE = 32

OnRefused = Callable[[Refusal], None]


class Sender:
    """One lane per topic, over the connection of one client (`lane.LaneContext`)."""

    def __init__(self, client: Client, file: FileThread, on_refused: OnRefused | None) -> None:
        self.file = file
        self.producer = ""
        self.careful = False
        self.turn = asyncio.Lock()
        self.opening = asyncio.Semaphore(OPENING_AT_ONCE)
        self.frame_bytes = FRAME_BYTES
        self.answer_seconds = client.options.request_timeout
        self.error: HubbubError | None = None
        self.progress = asyncio.Event()
        """Set whenever the number of waiting messages falls."""
        self._client = client
        self._on_refused = on_refused
        self._user: str | None = None
        self._lanes: dict[str, tuple[Lane, asyncio.Task[None]]] = {}
        self._receipts: dict[int, asyncio.Future[Receipt]] = {}
        self._expected = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watching: asyncio.Task[None] | None = None
        self._seen_version = 0

    async def start(self, producer: str) -> None:
        """Starts with the messages in the file."""
        self.producer = producer
        await self._look()
        self._loop = asyncio.get_running_loop()
        self._watching = self._loop.create_task(self._watch())

    async def stop(self) -> None:
        tasks = [task for _, task in self._lanes.values()]
        if self._watching is not None:
            tasks.append(self._watching)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def check(self) -> None:
        """Raises the error that ended the outbox."""
        if self.error is not None:
            raise self.error

    def receipt(self, place: int) -> asyncio.Future[Receipt]:
        """A future for the receipt of the message at this position of the outbox."""
        receipt: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        self._receipts[place] = receipt
        receipt.add_done_callback(lambda _: self._receipts.pop(place, None))
        if self.error is not None:
            receipt.set_exception(self.error)
        return receipt

    def give_up(self, error: HubbubError) -> None:
        """Fails all receipts: their results will remain unknown."""
        for receipt in list(self._receipts.values()):
            if not receipt.done():
                receipt.set_exception(error)
        self.progress.set()

    # -- lanes ----------------------------------------------------------------------------------

    def stir(self, topic: str) -> None:
        """Wakes the topic's lane: there is a message to send."""
        known = self._lanes.get(topic)
        if known is not None:
            known[0].stir()
        elif self.error is None:
            lane = Lane(topic, self)
            task = asyncio.get_running_loop().create_task(self._run(lane))
            self._lanes[topic] = lane, task

    async def _run(self, lane: Lane) -> None:
        try:
            await lane.run()
        except HubbubError as error:  # such as `ClientClosed`
            self.fail(error)
        except Exception as error:
            logger.exception("the outbox failed")
            self.fail(HubbubError(f"the outbox failed: {error!r}"))

    async def conversation(self) -> Conversation:
        conversation = await self._client.conversation()
        user = self._session_user()
        if user != self._user:
            await self.file.write(lambda file: tables.sent_by(file, user))
            self._user = user
        return conversation

    def _session_user(self) -> str:
        session = self._client.session
        return (session.user_id if session else None) or ""

    def confirmed(self, place: int, result: PublishResult) -> None:
        receipt = self._receipts.get(place)
        if receipt is not None and not receipt.done():
            receipt.set_result(Receipt(result.message_id or "", result.serial, result.duplicate))

    def forget(self, places: list[int]) -> None:
        done = self.file.write(lambda file: tables.confirm(file, places))
        done.add_done_callback(self._forgotten)

    def _forgotten(self, done: asyncio.Future[None]) -> None:
        error = None if done.cancelled() else done.exception()
        if error is not None:
            # They are sent again after the next start, and known as duplicates.
            logger.warning("confirmed messages stay in the outbox: %s", error)
        self.progress.set()

    def refused_by_hub(self, refusal: Refusal, error: HubbubError) -> None:
        self.progress.set()
        receipt = self._receipts.get(refusal.place)
        if receipt is not None and not receipt.done():
            receipt.set_exception(error)
            self.file.write(lambda file: tables.forget(file, refusal.place))
            return
        logger.warning("the hub refused a message to %r: %s", refusal.topic, error.message)
        if self._on_refused is not None:
            try:
                self._on_refused(refusal)
            except Exception:
                logger.exception("the callback for refused messages failed")

    def fail(self, error: HubbubError) -> None:
        """Stops sending and reports the error to the application."""
        user = self._session_user()
        if isinstance(error, ProducerFenced) and user != self._user:
            # To the hub this is a producer of somebody else.
            error = OutboxMismatch(
                f"the session became {user or 'anonymous'!r}, but the outbox is that of "
                f"{self._user or 'an anonymous client'!r}; use a client for each user"
            )
        logger.error("the outbox sends no more: %s", error.message)
        self.error = self.error or error
        for _, task in self._lanes.values():
            if task is not asyncio.current_task():
                task.cancel()
        self.give_up(error)

    # -- what others put into the file ----------------------------------------------------------

    def expect_commit(self) -> None:
        """Polls more often for a while, since a transaction is about to commit. Thread-safe."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._expected.set)

    async def _watch(self) -> None:
        """Detects messages put by `put_in`, in this and other processes."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._expected.wait(), POLL_SECONDS)
            with contextlib.suppress(HubbubError):  # a file in trouble is tried again
                hurry = HURRIES if self._expected.is_set() else 0
                self._expected.clear()
                while not await self._look() and hurry:
                    await asyncio.sleep(HURRY_SECONDS)
                    hurry -= 1

    async def _look(self) -> bool:
        """Returns whether another connection has written."""
        version = await self.file.read(_version)
        if version == self._seen_version:
            return False
        for topic in await self.file.read(tables.topics_with_messages):
            self.stir(topic)
        self._seen_version = version
        return True


def _version(file: sqlite3.Connection) -> int:
    """A number that changes when another connection has written."""
    (found,) = file.execute("PRAGMA data_version").fetchone()
    return int(found)
