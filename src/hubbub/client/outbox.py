"""An outbox: messages that reach the hub once, whatever crashes.

    async with connect() as client, Outbox(client, "orders.outbox") as outbox:
        await outbox.put("orders", {"item": 7})

A message is in the outbox's file before anything else happens, and leaves it when the hub has
confirmed it. What was under way when either side crashed is sent again under the same sequence, by
which the hub knows it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Literal, overload

from hubbub.client import outbox_tables as tables
from hubbub.client.client import Client
from hubbub.client.conversation import Conversation
from hubbub.client.errors import ClientClosed, OutboxMismatch
from hubbub.client.local_file import FileLock, FileThread, join_transaction
from hubbub.client.messages import Receipt
from hubbub.client.outbox_lane import FRAME_BYTES, Lane
from hubbub.client.outbox_tables import Limits, Refusal
from hubbub.domain.errors import HubbubError, ProducerFenced
from hubbub.domain.notices import PublishResult

logger = logging.getLogger("hubbub.client")

CLOSE_SECONDS = 5.0
POLL_SECONDS = 0.1
OPENING_AT_ONCE = 32

OnRefused = Callable[[Refusal], None]


class Outbox:
    """Use it with `async with`, or call `open` and `close`. One file has one process at a time.

    `on_refused` is called with each message that the hub refuses for good, unless somebody waits
    for its confirmation. Refused messages stay in the file until they are forgotten or put again.
    """

    def __init__(
        self,
        client: Client,
        file: str | PathLike[str],
        *,
        limits: Limits | None = None,
        on_refused: OnRefused | None = None,
    ) -> None:
        self._client = client
        self._path = Path(file)
        self._limits = limits or Limits()
        self._on_refused = on_refused
        self._lock: FileLock | None = None
        self._lanes: dict[str, tuple[Lane, asyncio.Task[None]]] = {}
        self._receipts: dict[int, asyncio.Future[Receipt]] = {}
        self._progress = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None
        self._seen_version = 0
        self._user: str | None = None
        self._error: HubbubError | None = None
        self.file = FileThread(self._path)
        self.producer = ""
        self.careful = False
        self.turn = asyncio.Lock()
        self.opening = asyncio.Semaphore(OPENING_AT_ONCE)
        self.frame_bytes = FRAME_BYTES
        self.answer_seconds = client.options.request_timeout

    # -- life -----------------------------------------------------------------------------------

    async def __aenter__(self) -> Outbox:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Begin to send what the file holds. Raises `FileInUse`, `FileUnusable` or
        `OutboxMismatch`."""
        self._lock = FileLock(self._path)
        try:
            owner = await self.file.open(self._prepare)
        except BaseException:
            await self._leave()
            raise
        self.producer = owner.producer
        await self._look()
        self._watching = asyncio.get_running_loop().create_task(self._watch())

    def _prepare(self, file: sqlite3.Connection) -> tables.Owner:
        tables.prepare(file, self._limits)
        return tables.belongs_to(file, self._client.hub)

    async def close(self, wait_seconds: float = CLOSE_SECONDS) -> None:
        """Send what waits if the hub is there and takes it in time; the rest stays in the file."""
        if self._lock is None:
            return
        if self._client.connected and self._error is None:
            with contextlib.suppress(TimeoutError, HubbubError):
                await asyncio.wait_for(self.drained(), wait_seconds)
        await self._leave()

    async def _leave(self) -> None:
        tasks = [task for _, task in self._lanes.values()]
        if self._watching is not None:
            tasks.append(self._watching)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.file.close()
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()
        self._stop(ClientClosed("the outbox was closed; the message stays in its file"))

    # -- putting --------------------------------------------------------------------------------

    @overload
    async def put(
        self,
        topic: str,
        data: object,
        event: str = "",
        *,
        content_type: str | None = None,
        confirm: Literal[True],
    ) -> Receipt: ...
    @overload
    async def put(
        self,
        topic: str,
        data: object,
        event: str = "",
        *,
        content_type: str | None = None,
        confirm: bool = False,
    ) -> Receipt | None: ...

    async def put(
        self,
        topic: str,
        data: object,
        event: str = "",
        *,
        content_type: str | None = None,
        confirm: bool = False,
    ) -> Receipt | None:
        """Returns when the message is in the file and will reach the hub. With `confirm`, waits
        until the hub has it on disk and answers the receipt; raises what the hub has against it.

        Raises `OutboxFull`, `FileUnusable`, and what ended the outbox, such as `ProducerFenced`.
        """
        if confirm:
            return await (await self.submit(topic, data, event, content_type=content_type))
        await self._write(topic, data, event, content_type)
        return None

    async def submit(
        self, topic: str, data: object, event: str = "", *, content_type: str | None = None
    ) -> asyncio.Future[Receipt]:
        """Returns when the message is in the file. Await what it answers for the receipt, or for
        what the hub has against the message."""
        place = await self._write(topic, data, event, content_type)
        receipt: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        self._receipts[place] = receipt
        receipt.add_done_callback(lambda _: self._receipts.pop(place, None))
        if self._error is not None:
            receipt.set_exception(self._error)
        return receipt

    async def _write(self, topic: str, data: object, event: str, content_type: str | None) -> int:
        self._check()
        message = tables.draft(topic, data, event, content_type)
        place = await self.file.write(lambda file: tables.add(file, message))
        self._stir(topic)
        return place

    def put_in(
        self,
        connection: sqlite3.Connection,
        topic: str,
        data: object,
        event: str = "",
        *,
        content_type: str | None = None,
    ) -> None:
        """Put as part of a transaction of the application: when it commits, the message will reach
        the hub; when it does not, the message never was. The connection is one to the file of this
        outbox."""
        self._check()
        put_in(connection, topic, data, event, content_type=content_type)

    @property
    def error(self) -> HubbubError | None:
        """What ended the outbox, if something did."""
        return self._error

    async def waiting(self) -> int:
        """How many messages the hub has not confirmed."""
        return await self.file.read(tables.count_waiting)

    async def drained(self) -> None:
        """Wait until the hub has confirmed or refused all. Raises what ended the outbox."""
        while True:
            self._progress.clear()
            self._check()
            if not await self.waiting():
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._progress.wait(), POLL_SECONDS)

    # -- refused messages -----------------------------------------------------------------------

    async def refused(self) -> list[Refusal]:
        """Those that the hub refused, oldest first; also of earlier runs."""
        return await self.file.read(tables.refused)

    async def forget_refused(self, refusal: Refusal) -> None:
        await self.file.write(lambda file: tables.forget(file, refusal.place))

    async def put_again(self, refusal: Refusal) -> None:
        """Put it once more, behind what waits: what spoke against it is settled."""
        topic = await self.file.write(lambda file: tables.put_again(file, refusal.place))
        if topic is not None:
            self._stir(topic)

    # -- for the lanes (`outbox_lane.Office`) ---------------------------------------------------

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
        self._progress.set()

    def refused_by_hub(self, refusal: Refusal, error: HubbubError) -> None:
        self._progress.set()
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
        """Nothing more can be sent: the application learns it from now on."""
        user = self._session_user()
        if isinstance(error, ProducerFenced) and user != self._user:
            # To the hub this is a producer of somebody else.
            error = OutboxMismatch(
                f"the session became {user or 'anonymous'!r}, but the outbox is that of "
                f"{self._user or 'an anonymous client'!r}; use a client for each user"
            )
        logger.error("the outbox %s sends no more: %s", self._path, error.message)
        self._error = self._error or error
        for _, task in self._lanes.values():
            if task is not asyncio.current_task():
                task.cancel()
        self._stop(error)

    # -- inside ---------------------------------------------------------------------------------

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _stop(self, error: HubbubError) -> None:
        for receipt in list(self._receipts.values()):
            if not receipt.done():
                receipt.set_exception(error)
        self._progress.set()

    def _stir(self, topic: str) -> None:
        known = self._lanes.get(topic)
        if known is not None:
            known[0].stir()
        elif self._error is None:
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

    async def _watch(self) -> None:
        """Notice what others have put into the file: `put_in` here and in other processes."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            with contextlib.suppress(HubbubError):  # a file in trouble is tried again
                await self._look()

    async def _look(self) -> None:
        version = await self.file.read(_version)
        if version != self._seen_version:
            for topic in await self.file.read(tables.topics_with_messages):
                self._stir(topic)
            self._seen_version = version


def put_in(
    connection: sqlite3.Connection,
    topic: str,
    data: object,
    event: str = "",
    *,
    content_type: str | None = None,
) -> None:
    """Write a message into the outbox tables of the application's database, as part of its own
    transaction. Whichever process has an `Outbox` on this database sends it after the commit.
    Raises `OutboxFull`."""
    message = tables.draft(topic, data, event, content_type)
    join_transaction(connection)
    try:
        tables.add(connection, message)
    except sqlite3.OperationalError as error:
        if "no such table" not in str(error):
            raise
        tables.prepare(connection)
        tables.add(connection, message)


def _version(file: sqlite3.Connection) -> int:
    """Changes when another connection has written."""
    (found,) = file.execute("PRAGMA data_version").fetchone()
    return int(found)
