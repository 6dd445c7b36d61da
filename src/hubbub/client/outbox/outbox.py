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
import sqlite3
from os import PathLike
from pathlib import Path
from typing import Literal, Unpack, overload

from hubbub.client.client import Client
from hubbub.client.errors import ClientClosed
from hubbub.client.local_file import FileLock, FileThread, join_transaction
from hubbub.client.messages import Receipt
from hubbub.client.outbox import tables
from hubbub.client.outbox.sender import POLL_SECONDS, OnRefused, Sender
from hubbub.client.outbox.tables import Limits, OutboxOptions, Refusal
from hubbub.domain.errors import HubbubError
from hubbub.domain.requests import PublishItem

CLOSE_SECONDS = 5.0


class Outbox:
    """Use it with `async with`, or call `open` and `close`. A file is used by one process at a
    time.

    `on_refused` is called with each message that the hub refuses permanently, unless a caller
    awaits its confirmation. Refused messages stay in the file until they are forgotten or put
    again.
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
        self._lock: FileLock | None = None
        self._file = FileThread(self._path)
        self._sender = Sender(client, self._file, on_refused)

    # -- life -----------------------------------------------------------------------------------

    async def __aenter__(self) -> Outbox:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Starts to send the messages in the file. Raises `FileInUse`, `FileUnusable` or
        `OutboxMismatch`."""
        self._lock = FileLock(self._path)
        try:
            owner = await self._file.open(self._prepare)
            await self._sender.start(owner.producer)
        except BaseException:
            await self._leave()
            raise

    def _prepare(self, file: sqlite3.Connection) -> tables.OutboxOwner:
        tables.prepare(file, self._limits)
        return tables.belongs_to(file, self._client.hub)

    async def close(self, wait_seconds: float = CLOSE_SECONDS) -> None:
        """Sends waiting messages if the hub accepts them in time; the rest stays in the file."""
        if self._lock is None:
            return
        if self._client.connected and self._sender.error is None:
            with contextlib.suppress(TimeoutError, HubbubError):
                await asyncio.wait_for(self.drained(), wait_seconds)
        await self._leave()

    async def _leave(self) -> None:
        await self._sender.stop()
        await self._file.close()
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()
        self._sender.give_up(ClientClosed("the outbox was closed; the message stays in its file"))

    @property
    def producer(self) -> str:
        """The producer id of this outbox at the hub."""
        return self._sender.producer

    @property
    def error(self) -> HubbubError | None:
        """The error that ended the outbox; None while it works."""
        return self._sender.error

    # -- putting --------------------------------------------------------------------------------

    @overload
    async def put(
        self,
        topic: str,
        data: object,
        event: str = "",
        *,
        confirm: Literal[True],
        **options: Unpack[OutboxOptions],
    ) -> Receipt: ...
    @overload
    async def put(
        self,
        topic: str,
        data: object,
        event: str = "",
        *,
        confirm: bool = False,
        **options: Unpack[OutboxOptions],
    ) -> Receipt | None: ...

    async def put(
        self,
        topic: str,
        data: object,
        event: str = "",
        *,
        confirm: bool = False,
        **options: Unpack[OutboxOptions],
    ) -> Receipt | None:
        """Returns when the message is in the file and will reach the hub. With `confirm`, waits
        until the hub has stored it and returns the receipt, or raises the hub's refusal.

        Raises `OutboxFull`, `FileUnusable`, and the error that ended the outbox, such as
        `ProducerFenced`.
        """
        if confirm:
            return await (await self.submit(topic, data, event, **options))
        await self._write(tables.draft(topic, data, event, **options))
        return None

    async def submit(
        self, topic: str, data: object, event: str = "", **options: Unpack[OutboxOptions]
    ) -> asyncio.Future[Receipt]:
        """Returns when the message is in the file. The future's result is the receipt, or the error
        with which the hub refused the message."""
        place = await self._write(tables.draft(topic, data, event, **options))
        return self._sender.receipt(place)

    async def _write(self, message: PublishItem) -> int:
        self._sender.check()
        place = await self._file.write(lambda file: tables.add(file, message))
        self._sender.stir(message.channel)
        return place

    def put_in(
        self,
        connection: sqlite3.Connection,
        topic: str,
        data: object,
        event: str = "",
        **options: Unpack[OutboxOptions],
    ) -> None:
        """Puts as part of the application's transaction: the message is sent if and only if it
        commits. The connection must be to the file of this outbox."""
        self._sender.check()
        put_in(connection, topic, data, event, **options)
        self._sender.expect_commit()

    async def waiting(self) -> int:
        """How many messages the hub has not confirmed."""
        return await self._file.read(tables.count_waiting)

    async def drained(self) -> None:
        """Waits until the hub has confirmed or refused all messages. Raises the error that ended
        the outbox."""
        while True:
            self._sender.progress.clear()
            self._sender.check()
            if not await self.waiting():
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._sender.progress.wait(), POLL_SECONDS)

    # -- refused messages -----------------------------------------------------------------------

    async def refused(self) -> list[Refusal]:
        """The messages that the hub refused, oldest first, including those of earlier runs."""
        return await self._file.read(tables.refused)

    async def forget_refused(self, refusal: Refusal) -> None:
        await self._file.write(lambda file: tables.forget(file, refusal.place))

    async def put_again(self, refusal: Refusal) -> None:
        """Puts a refused message again, after all waiting ones, when the cause is resolved."""
        topic = await self._file.write(lambda file: tables.put_again(file, refusal.place))
        if topic is not None:
            self._sender.stir(topic)


def put_in(
    connection: sqlite3.Connection,
    topic: str,
    data: object,
    event: str = "",
    **options: Unpack[OutboxOptions],
) -> None:
    """Writes a message to the outbox tables of the application's database, as part of its own
    transaction. A process with an `Outbox` on this database sends it after the commit. Raises
    `OutboxFull`."""
    message = tables.draft(topic, data, event, **options)
    join_transaction(connection)
    try:
        tables.add(connection, message)
    except sqlite3.OperationalError as error:
        if "no such table" not in str(error):
            raise
        tables.prepare(connection)
        tables.add(connection, message)
