"""Public types of a local copy: its state, and awaitable edits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from typing import Any

import msgspec


class CopyState(msgspec.Struct, frozen=True):
    """The state of a copy: the hub's document at a version, with `pending` edits on top."""

    value: Any
    version: int
    epoch: str
    pending: int


class EditConfirmed(msgspec.Struct, frozen=True):
    """The version of the hub's document that includes the edit."""

    version: int
    epoch: str


class Edit(Awaitable[EditConfirmed]):
    """An edit that is already visible. Awaiting it waits until the hub has stored it. Raises
    `EditRejected`, whose `ops` are the operations, and `ClientClosed` if the copy was closed before
    the result was known; with a file, the edit is kept in it."""

    def __init__(self, change_id: str | None, saved: asyncio.Future[None] | None) -> None:
        self.id = change_id
        self._saved = saved
        self._future: asyncio.Future[EditConfirmed] = asyncio.get_running_loop().create_future()

    def __await__(self) -> Generator[Any, None, EditConfirmed]:
        return asyncio.shield(self._future).__await__()

    @property
    def done(self) -> bool:
        return self._future.done()

    async def saved(self) -> None:
        """Waits until the edit is in the copy's file: from then on it survives a crash."""
        if self._saved is not None:
            await asyncio.shield(self._saved)

    def confirm(self, version: int, epoch: str) -> None:
        if not self._future.done():
            self._future.set_result(EditConfirmed(version, epoch))

    def fail(self, error: Exception) -> None:
        if not self._future.done():
            self._future.set_exception(error)
            self._future.exception()  # who does not wait is told by `on_rejected`, and the log
