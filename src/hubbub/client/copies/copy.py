"""A local copy of a document: read and edited at once, confirmed by the hub when there is one.

async with client.document("doc:groceries").local("groceries.copy") as copy:
    edit = copy.patch({"op": "add", "path": "/items/-", "value": "milk"})
    print(copy.value)  # has the milk
    await edit  # so has the hub
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from itertools import count
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec

from hubbub.client.connection.conversation import Conversation
from hubbub.client.connection.supervisor import Supervisor
from hubbub.client.copies.changes import (
    Backoff,
    Confirmed,
    Effect,
    Fetch,
    Forget,
    Guard,
    Rejected,
    Save,
    SavedChange,
    Send,
    Wait,
)
from hubbub.client.copies.edits import CopyState, Edit
from hubbub.client.copies.file import CopyFile, Rejection, SavedCopy
from hubbub.client.copies.replica import Fetched, Replica, Update
from hubbub.client.document_values import operations_json, to_python
from hubbub.client.errors import (
    ClientClosed,
    ConnectionLost,
    EditRejected,
    QueueFull,
    client_failed,
)
from hubbub.client.subscription import Subscription
from hubbub.domain import notices
from hubbub.domain.documents.paths import parse_path
from hubbub.domain.documents.text import JsonList
from hubbub.domain.documents.values import Value, stored_value
from hubbub.domain.errors import HubbubError, RequestTimeout
from hubbub.domain.requests import ChangeDocument, DocumentGet, Producer
from hubbub.tasks import TaskSet

logger = logging.getLogger("hubbub.client")

CLOSE_SECONDS = 5.0
SAVE_SECONDS = 2.0
"""The interval at which the hub's document is written to the file."""
OVERDUE_SECONDS = 1.0
"""The time after which a missing update is requested."""
FIRST_RETRY_SECONDS = 0.25
LONGEST_RETRY_SECONDS = 20.0
CONFLICT_SECONDS = 0.005
"""The longest delay after a conflict with another client's edit; doubled with each conflict, up to
nine times."""

OnRejected = Callable[[Rejection], None]


class LocalCopy:
    """Created by `Document.local`; use it with `async with`, or call `open` and `close`.

    Without a file, unconfirmed edits are lost when the copy is closed. `on_rejected` is called with
    every edit that has no effect; those of earlier runs stay in the file, and in `rejected`, until
    `forget_rejected`.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        hub: str,
        channel: str,
        subscribe: Callable[[str], Subscription],
        *,
        file: str | PathLike[str] | None = None,
        guard: Guard = "auto",
        max_pending: int = 10_000,
        on_rejected: OnRejected | None = None,
    ) -> None:
        self.channel = channel
        self._supervisor = supervisor
        self._subscribe = subscribe
        self._file = None if file is None else CopyFile(Path(file), hub, channel)
        self._guard = guard
        self._max_pending = max_pending
        self._on_rejected = on_rejected
        self._rejected: list[Rejection] = []
        self._edits: dict[str, Edit] = {}
        self._saving: dict[str, asyncio.Future[None]] = {}
        self._replica = self._make(SavedCopy())
        self._subscription: Subscription | None = None
        self._conversation: Conversation | None = None
        self._tasks = TaskSet(self._failed)
        self._known = asyncio.Event()
        self._news = asyncio.Event()
        self._unsaved = asyncio.Event()
        self._revision = 0
        self._retries = 0
        self._error: HubbubError | None = None

    def _make(self, saved: SavedCopy) -> Replica:
        life, numbers = secrets.token_hex(6), count(1)
        return Replica(
            lambda: f"{life}.{next(numbers)}",
            lambda: secrets.token_hex(8),
            saved=saved.changes,
            producer=saved.producer,
            sequence=saved.sequence,
        )

    # -- life -----------------------------------------------------------------------------------

    async def __aenter__(self) -> LocalCopy:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Starts to follow the document; waits until it is read from the file or the hub. Raises
        `FileInUse`, `FileUnusable`, `CopyMismatch`, and the hub's refusal."""
        try:
            if self._file is not None:
                self._load(await self._file.open())
            self._subscription = self._subscribe(self.channel)
            self._tasks.start(self._follow(self._subscription))
            self._tasks.start(self._connect())
            if self._file is not None:
                self._tasks.start(self._save_now_and_then(self._file))
            await self._known.wait()
            self._check()
        except BaseException:
            await self._leave()
            raise

    def _load(self, saved: SavedCopy) -> None:
        self._replica = self._make(saved)
        self._rejected = list(saved.rejected)
        if saved.document is not None:
            self._replica.load(saved.epoch, saved.version, stored_value(saved.document))
            self._known.set()
            self._perform()

    async def close(self, wait_seconds: float = CLOSE_SECONDS) -> None:
        """Waits for up to `wait_seconds` until pending edits are confirmed, if there is a
        connection; then ends. With a file, pending edits stay in it."""
        if self._conversation is not None and self._error is None:
            with contextlib.suppress(TimeoutError, HubbubError):
                await asyncio.wait_for(self.settled(), wait_seconds)
        await self._leave()

    async def _leave(self) -> None:
        self._end(ClientClosed(f"the copy of {self.channel!r} was closed"))
        await self._tasks.end()
        if self._subscription is not None:
            await self._subscription.unsubscribe()
        if self._file is not None:
            if self._known.is_set() and self._replica.known:
                with contextlib.suppress(HubbubError):
                    await self._save_document(self._file)
            await self._file.close()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _failed(self, error: BaseException) -> None:
        known = isinstance(error, HubbubError)
        if not known:
            logger.error("a local copy failed", exc_info=error)
        self._end(error if isinstance(error, HubbubError) else client_failed(error))

    def _end(self, error: HubbubError) -> None:
        """Accepts no further edits; the results of pending ones will remain unknown."""
        self._error = self._error or error
        edits, self._edits = self._edits, {}
        for edit in edits.values():
            edit.fail(self._error)
        self._known.set()
        self._tell()

    # -- reading --------------------------------------------------------------------------------

    @property
    def value(self) -> Any:
        """A copy of the document with all pending edits, as plain Python with `bytes`."""
        return self.get()

    def get(self, path: str = "") -> Any:
        """A part of it. Raises `NotFound`."""
        return to_python(self._replica.view.part(parse_path(path)))

    @property
    def confirmed(self) -> Any:
        """The hub's document as last received, without pending edits."""
        return to_python(self._replica.confirmed.root)

    @property
    def version(self) -> int:
        """The version of `confirmed`."""
        return self._replica.version

    @property
    def epoch(self) -> str:
        return self._replica.epoch

    @property
    def pending(self) -> int:
        """The number of edits that the hub has not confirmed."""
        return self._replica.unconfirmed

    @property
    def error(self) -> HubbubError | None:
        """The error that ended the copy; None while it works."""
        return self._error

    @property
    def rejected(self) -> list[Rejection]:
        """Edits of earlier runs that had no effect."""
        return list(self._rejected)

    async def forget_rejected(self) -> None:
        self._rejected.clear()
        if self._file is not None:
            await self._file.forget_rejected()

    async def watch(self) -> AsyncIterator[CopyState]:
        """Yields the state, now and after each change; intermediate states are skipped if the
        reader is slower. Raises the error that ended the copy, unless it was closed."""
        seen = -1
        while True:
            if self._revision != seen:
                seen = self._revision
                replica = self._replica
                yield CopyState(self.value, replica.version, replica.epoch, self.pending)
                continue
            if self._error is not None:
                if isinstance(self._error, ClientClosed):
                    return
                raise self._error
            await self._news.wait()

    async def settled(self) -> None:
        """Waits until the hub has every edit, and the copy has every result. Raises the error that
        ended the copy."""
        while self._replica.pending:
            self._check()
            await self._news.wait()

    # -- editing --------------------------------------------------------------------------------

    def patch(self, *operations: Mapping[str, Any], guard: Guard | None = None) -> Edit:
        """Applies operations of JSON Patch, all or none; they are visible at once. Raises
        `PatchFailed`, `InvalidPatch` or `InvalidPayload` if they do not fit, and `QueueFull`; the
        copy is unchanged then."""
        self._admit()
        return self._made(self._replica.edit(operations_json(operations), guard or self._guard))

    def edit(
        self,
        function: Callable[[Any], list[dict[str, Any]] | None],
        guard: Guard | None = None,
    ) -> Edit:
        """Applies the operations that a function returns for the document. If another client
        changes the document first, the function is called again with the newer document, up to 25
        times. Raises the function's exceptions, and those of `patch`."""

        def answer(root: Value) -> bytes:
            return operations_json(function(to_python(root)) or [])

        self._admit()
        return self._made(self._replica.edit_by(answer, guard or self._guard))

    def _admit(self) -> None:
        self._check()
        if self._replica.unconfirmed >= self._max_pending:
            raise QueueFull(
                f"{self._max_pending} edits of {self.channel!r} are pending; edit again when the "
                "hub has taken some"
            )

    def _made(self, change_id: str | None) -> Edit:
        if change_id is None:
            edit = Edit(None, None)
            edit.confirm(self._replica.version, self._replica.epoch)
            return edit
        self._perform()
        edit = self._edits[change_id] = Edit(change_id, self._saving.get(change_id))
        return edit

    # -- what the replica asks for --------------------------------------------------------------

    def _perform(self) -> None:
        for effect in self._replica.effects():
            self._perform_one(effect)
        if self._replica.known:
            self._known.set()
        self._unsaved.set()
        self._tell()

    def _tell(self) -> None:
        self._revision += 1
        self._news.set()
        self._news = asyncio.Event()

    def _perform_one(self, effect: Effect) -> None:
        conversation = self._conversation
        if isinstance(effect, Save):
            self._save(effect.change)
        elif isinstance(effect, Send):
            if conversation is not None:
                self._tasks.start(self._send(conversation, effect.change))
        elif isinstance(effect, Fetch):
            if conversation is not None:
                self._tasks.start(self._fetch(conversation, effect))
        elif isinstance(effect, Wait):
            if conversation is not None:
                delay = effect.seconds or self._next_delay()
                self._tasks.start(self._resend_later(conversation, delay))
        elif isinstance(effect, Backoff):
            if conversation is not None:
                delay = random.uniform(0, CONFLICT_SECONDS * 2 ** min(effect.tries, 9))
                self._tasks.start(self._resend_later(conversation, delay))
        elif isinstance(effect, Confirmed):
            self._confirm(effect)
        elif isinstance(effect, Rejected):
            self._reject(effect)
        else:
            self._forget(effect)

    def _save(self, change: SavedChange) -> None:
        if self._file is not None:
            written = self._saving[change.id] = self._file.save(change)
            self._tasks.start(_wait(written))

    def _forget(self, effect: Forget) -> None:
        self._saving.pop(effect.id, None)
        if self._file is not None:
            written = self._file.forget(effect.id, effect.producer, effect.sequence)
            self._tasks.start(_wait(written))

    def _confirm(self, effect: Confirmed) -> None:
        self._retries = 0
        edit = self._edits.pop(effect.id, None)
        if edit is not None:
            edit.confirm(effect.version, effect.epoch)
        if (effect.epoch, effect.version) > (self._replica.epoch, self._replica.version):
            self._tasks.start(self._check_overdue(effect.version))

    async def _check_overdue(self, version: int) -> None:
        """The update of an own change normally arrives together with its response."""
        await asyncio.sleep(OVERDUE_SECONDS)
        if self._replica.version < version:
            self._replica.catch_up()
            self._perform()

    def _reject(self, effect: Rejected) -> None:
        cause = effect.error
        error = cause if isinstance(cause, HubbubError) else client_failed(cause)
        rejection = Rejection(effect.id, bytes(effect.ops), error.code, error.message)
        edit = self._edits.pop(effect.id, None)
        if edit is not None:
            edit.fail(EditRejected(self.channel, bytes(effect.ops), cause, error))
        else:
            self._rejected.append(rejection)
            if self._file is not None:
                self._tasks.start(_wait(self._file.reject(effect.id, error)))
        logger.warning("an edit of %r was rejected: %s", self.channel, error.message)
        if self._on_rejected is not None:
            try:
                self._on_rejected(rejection)
            except Exception:
                logger.exception("the callback for rejected edits failed")

    async def _send(self, conversation: Conversation, change: SavedChange) -> None:
        written = self._saving.get(change.id)
        if written is not None:
            await asyncio.shield(written)
        request = ChangeDocument(
            self.channel,
            JsonList(bytes(change.ops)),
            0,
            change.expected,
            change.sent_epoch,
            change.id,
            Producer(change.producer, change.sequence),
        )
        try:
            found = await conversation.ask(request, notices.DocumentChangeResult)
        except ConnectionLost:
            return  # the next connection sends it again
        except RequestTimeout:
            if conversation is self._conversation:
                self._replica.resend()
        except HubbubError as error:
            self._replica.refused(change.id, error)
        else:
            self._replica.answered(change.id, found.epoch, found.version or 0)
        self._perform()

    async def _resend_later(self, conversation: Conversation, seconds: float) -> None:
        await asyncio.sleep(seconds)
        if conversation is self._conversation:
            self._replica.resend()
            self._perform()

    def _next_delay(self) -> float:
        self._retries = min(self._retries + 1, 10)
        return min(FIRST_RETRY_SECONDS * (1 << self._retries) / 2, LONGEST_RETRY_SECONDS)

    async def _fetch(self, conversation: Conversation, effect: Fetch) -> None:
        request = DocumentGet(self.channel, 0, since=effect.since, epoch=effect.epoch)
        try:
            found = await conversation.ask(request, notices.DocumentFound)
        except ConnectionLost:
            return
        except HubbubError as error:
            if not error.retry and not isinstance(error, RequestTimeout):
                raise
            await asyncio.sleep(error.retry_after or self._next_delay())
            if conversation is not self._conversation:
                return
            self._replica.fetch_failed()
            self._replica.catch_up()
        else:
            if conversation is self._conversation:
                self._replica.fetched(_fetched(found))
        self._perform()

    # -- the hub --------------------------------------------------------------------------------

    async def _connect(self) -> None:
        """Handles one connection after the other. Ends with `ClientClosed`."""
        while True:
            conversation = await self._supervisor.conversation()
            if self._file is not None:
                info = self._supervisor.info
                await self._file.used_by((info.user_id if info else None) or "")
            if conversation.over:
                continue
            self._conversation = conversation
            self._replica.connected()
            self._perform()
            await conversation.ended()
            self._conversation = None
            self._replica.lost()

    async def _follow(self, subscription: Subscription) -> None:
        """Ends when the subscription ends."""
        dropped = 0
        async for event in subscription.events():
            if isinstance(event, notices.DocumentInfo):
                self._replica.informed(event.epoch, event.version)
            elif isinstance(event, notices.DocumentUpdated):
                self._replica.updated(_update(event))
            else:
                continue
            if subscription.dropped != dropped:
                dropped = subscription.dropped
                self._replica.catch_up()
            self._perform()

    async def _save_now_and_then(self, file: CopyFile) -> None:
        while True:
            await self._unsaved.wait()
            self._unsaved.clear()
            if self._replica.known:
                await self._save_document(file)
            await asyncio.sleep(SAVE_SECONDS)

    def _save_document(self, file: CopyFile) -> asyncio.Future[None]:
        replica = self._replica
        return file.save_document(
            replica.epoch, replica.version, replica.confirmed.json(), replica.unsettled()
        )


async def _wait(written: asyncio.Future[None]) -> None:
    await asyncio.shield(written)


def _update(update: notices.DocumentUpdated) -> Update:
    return Update(update.epoch, update.version, update.change_id, msgspec.Raw(update.ops.text))


def _fetched(found: notices.DocumentFound) -> Fetched:
    if found.document is not None:
        return Fetched(found.epoch, found.version, stored_value(found.document.text))
    updates = tuple(_update(each) for each in found.updates)
    return Fetched(found.epoch, found.version, updates=updates, more=found.more)
