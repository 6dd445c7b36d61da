"""Reads, changes and follows a document."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from os import PathLike
from typing import Any

import msgspec

from hubbub.client.connection.supervisor import Supervisor
from hubbub.client.copies.changes import Guard
from hubbub.client.copies.copy import LocalCopy, OnRejected
from hubbub.client.document_values import from_python, operations_json, to_python
from hubbub.client.numbering import NumberedPuts
from hubbub.client.subscription import Subscription
from hubbub.domain import notices
from hubbub.domain.documents.document import JsonDocument as Copy
from hubbub.domain.documents.operations import stored_patch
from hubbub.domain.documents.text import JsonList
from hubbub.domain.documents.values import stored_value
from hubbub.domain.errors import PatchFailed
from hubbub.domain.requests import ChangeDocument, DocumentGet


class DocumentVersion(msgspec.Struct, frozen=True):
    """A document, or a part of it, at a version. Bytes in it are `bytes`."""

    value: Any
    version: int
    epoch: str
    timestamp: int
    """The time of the change that led to the version, in milliseconds since 1970."""

    @property
    def time(self) -> datetime:
        return datetime.fromtimestamp(self.timestamp / 1000, UTC)


class DocumentChanged(msgspec.Struct, frozen=True):
    """The version that a change produced; `duplicate`: the hub already had the change."""

    version: int
    epoch: str
    duplicate: bool = False


class Document:
    """A document of a channel; created by `Client.document`."""

    def __init__(
        self,
        supervisor: Supervisor,
        hub: str,
        channel: str,
        subscribe: Callable[[str], Subscription],
    ) -> None:
        self.channel = channel
        self._hub = hub
        self._supervisor = supervisor
        self._subscribe = subscribe
        self._changes = NumberedPuts()

    async def get(
        self, path: str = "", *, at: int | None = None, at_time: int | None = None
    ) -> DocumentVersion:
        """The document, or a part of it, now, at a version, or at a time (ms). Raises `NotFound`
        and `HistoryGone`."""
        request = DocumentGet(self.channel, 0, path, at=at, at_time=at_time)
        found = await self._supervisor.call(request, notices.DocumentFound)
        text = found.document.text if found.document is not None else b"null"
        return DocumentVersion(
            to_python(stored_value(text)), found.version, found.epoch, found.timestamp
        )

    async def patch(
        self,
        *operations: Mapping[str, Any],
        expected_version: int | None = None,
        epoch: str | None = None,
        change_id: str = "",
    ) -> DocumentChanged:
        """Applies operations of JSON Patch, all or none; returns when that is on disk. Repeated
        after a lost connection, but applied once. Raises `PatchFailed` (whose `details` have
        `opIndex` and `reason`) and `VersionMismatch`."""
        return await self.patch_json(
            operations_json(operations),
            expected_version=expected_version,
            epoch=epoch,
            change_id=change_id,
        )

    async def patch_json(
        self,
        operations: bytes,
        *,
        expected_version: int | None = None,
        epoch: str | None = None,
        change_id: str = "",
    ) -> DocumentChanged:
        """Like `patch`, with the operations as JSON text."""
        text = JsonList(operations)
        async with self._changes.turn:
            with self._changes.next() as producer:
                request = ChangeDocument(
                    self.channel, text, 0, expected_version, epoch, change_id, producer
                )
                found = await self._supervisor.call(request, notices.DocumentChangeResult)
        return DocumentChanged(found.version or 0, found.epoch, found.duplicate)

    def local(
        self,
        file: str | PathLike[str] | None = None,
        *,
        guard: Guard = "auto",
        max_pending: int = 10_000,
        on_rejected: OnRejected | None = None,
    ) -> LocalCopy:
        """A copy that can be edited at once, even without a connection; use it with `async with`.
        With a file, edits are saved in it before they are sent, and survive a crash. `guard`: which
        edits apply only to the version for which they were made."""
        return LocalCopy(
            self._supervisor,
            self._hub,
            self.channel,
            self._subscribe,
            file=file,
            guard=guard,
            max_pending=max_pending,
            on_rejected=on_rejected,
        )

    async def watch(self) -> AsyncIterator[DocumentVersion]:
        """Yields the document now and after every change, also across lost connections."""
        subscription = await self._subscribe(self.channel)
        copy = _Follower(self)
        async for event in subscription.events():
            if isinstance(event, notices.DocumentInfo | notices.DocumentUpdated):
                found = await copy.take(event)
                if found is not None:
                    yield found


class _Follower:
    """Follows the updates of a document; if one is missing, reads the whole document again."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._copy = Copy()
        self._at: tuple[str, int] | None = None

    async def take(
        self, event: notices.DocumentInfo | notices.DocumentUpdated
    ) -> DocumentVersion | None:
        """Returns None if nothing changed."""
        if self._at is not None and event.epoch == self._at[0] and event.version <= self._at[1]:
            return None
        follows = self._at == (event.epoch, event.version - 1)
        if isinstance(event, notices.DocumentUpdated) and follows:
            try:
                self._copy.follow(stored_patch(event.ops.text))
            except PatchFailed:
                return await self._read()
            self._at = event.epoch, event.version
            value = to_python(self._copy.root)
            return DocumentVersion(value, event.version, event.epoch, event.timestamp)
        return await self._read()

    async def _read(self) -> DocumentVersion:
        found = await self._document.get()
        self._copy = Copy(from_python(found.value))
        self._at = found.epoch, found.version
        return found
