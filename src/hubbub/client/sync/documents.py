"""Documents and local copies for programs without asyncio: the same calls, which wait.

with connect() as client, client.document("doc:groceries").local("groceries.copy") as copy:
    edit = copy.patch({"op": "add", "path": "/items/-", "value": "milk"})
    print(copy.value)  # has the milk
    edit.wait()  # so has the hub
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from os import PathLike
from typing import Any, TypeVar

from hubbub.client.copies.changes import Guard
from hubbub.client.copies.copy import LocalCopy as AsyncLocalCopy
from hubbub.client.copies.copy import OnRejected
from hubbub.client.copies.edits import CopyState, EditConfirmed
from hubbub.client.copies.edits import Edit as AsyncEdit
from hubbub.client.copies.file import Rejection
from hubbub.client.documents import Document as AsyncDocument
from hubbub.client.documents import DocumentVersion
from hubbub.client.sync.waiting import Blocking, Runner, waits

T = TypeVar("T")


class Document(Blocking[AsyncDocument]):
    """A document of a channel; created by `client.document(channel)`."""

    get = waits(AsyncDocument.get)
    patch = waits(AsyncDocument.patch)
    patch_json = waits(AsyncDocument.patch_json)

    def watch(self) -> Iterator[DocumentVersion]:
        """Yields the document now and after every change, also across lost connections."""
        return _iterated(self._runner, self._inner.watch())

    def local(
        self,
        file: str | PathLike[str] | None = None,
        *,
        guard: Guard = "auto",
        max_pending: int = 10_000,
        on_rejected: OnRejected | None = None,
    ) -> LocalCopy:
        """A copy that can be edited at once, even without a connection. It is open when it is
        created: close it, or use it with `with`. `on_rejected` is called on the client's thread."""

        async def begin() -> AsyncLocalCopy:
            copy = self._inner.local(
                file, guard=guard, max_pending=max_pending, on_rejected=on_rejected
            )
            await copy.open()
            return copy

        return LocalCopy(self._runner, self._runner.run(begin()))


class Edit:
    """An edit that is already visible."""

    def __init__(self, runner: Runner, inner: AsyncEdit) -> None:
        self._runner = runner
        self._inner = inner

    @property
    def done(self) -> bool:
        return self._inner.done

    def wait(self) -> EditConfirmed:
        """Waits until the hub has stored the edit. Raises `EditRejected` and `ClientClosed`."""

        async def confirmed() -> EditConfirmed:
            return await self._inner

        return self._runner.run(confirmed())

    def wait_saved(self) -> None:
        """Waits until the edit is in the copy's file: from then on it survives a crash."""
        self._runner.run(self._inner.saved())


class LocalCopy(Blocking[AsyncLocalCopy]):
    """A thread-safe copy of a document."""

    close = waits(AsyncLocalCopy.close)
    settled = waits(AsyncLocalCopy.settled)
    forget_rejected = waits(AsyncLocalCopy.forget_rejected)

    def _do(self, work: Callable[[], T]) -> T:
        """Runs `work` on the client's thread, the only one that may use the copy."""

        async def run() -> T:
            return work()

        return self._runner.run(run())

    @property
    def value(self) -> Any:
        """A copy of the document with all pending edits, as plain Python with `bytes`."""
        return self.get()

    def get(self, path: str = "") -> Any:
        """A part of it. Raises `NotFound`."""
        return self._do(lambda: self._inner.get(path))

    @property
    def state(self) -> CopyState:
        """Value, version and number of pending edits, as a consistent snapshot."""
        copy = self._inner
        return self._do(lambda: CopyState(copy.value, copy.version, copy.epoch, copy.pending))

    @property
    def version(self) -> int:
        return self._inner.version

    @property
    def pending(self) -> int:
        return self._inner.pending

    @property
    def rejected(self) -> list[Rejection]:
        return self._inner.rejected

    def patch(self, *operations: Mapping[str, Any], guard: Guard | None = None) -> Edit:
        """Applies operations of JSON Patch; they are visible at once. Raises the same errors as the
        asynchronous copy."""
        return Edit(self._runner, self._do(lambda: self._inner.patch(*operations, guard=guard)))

    def edit(
        self,
        function: Callable[[Any], list[dict[str, Any]] | None],
        guard: Guard | None = None,
    ) -> Edit:
        """Applies the operations that a function returns for the document. The function runs on the
        client's thread, and again if another client changes the document first."""
        return Edit(self._runner, self._do(lambda: self._inner.edit(function, guard)))

    def watch(self) -> Iterator[CopyState]:
        """Yields the state, now and after each change."""
        return _iterated(self._runner, self._inner.watch())


def _iterated(runner: Runner, iterator: AsyncIterator[T]) -> Iterator[T]:
    async def step() -> T:
        return await anext(iterator)

    while True:
        try:
            found = runner.run(step())
        except StopAsyncIteration:
            return
        yield found
