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
    """`client.document(channel)`."""

    get = waits(AsyncDocument.get)
    patch = waits(AsyncDocument.patch)
    patch_json = waits(AsyncDocument.patch_json)

    def watch(self) -> Iterator[DocumentVersion]:
        """The document as it is, and again after every change, also over lost connections."""
        return _iterated(self._runner, self._inner.watch())

    def local(
        self,
        file: str | PathLike[str] | None = None,
        *,
        guard: Guard = "auto",
        max_pending: int = 10_000,
        on_rejected: OnRejected | None = None,
    ) -> LocalCopy:
        """A copy that is edited at once, also without a connection. It is open when it is made:
        close it, or use it with `with`. `on_rejected` is called on the client's thread."""

        async def begin() -> AsyncLocalCopy:
            copy = self._inner.local(
                file, guard=guard, max_pending=max_pending, on_rejected=on_rejected
            )
            await copy.open()
            return copy

        return LocalCopy(self._runner, self._runner.run(begin()))


class Edit:
    """An edit that shows already."""

    def __init__(self, runner: Runner, inner: AsyncEdit) -> None:
        self._runner = runner
        self._inner = inner

    @property
    def done(self) -> bool:
        return self._inner.done

    def wait(self) -> EditConfirmed:
        """Wait until the hub has it on disk. Raises `EditRejected` and `ClientClosed`."""

        async def confirmed() -> EditConfirmed:
            return await self._inner

        return self._runner.run(confirmed())

    def wait_saved(self) -> None:
        """Wait until it is in the copy's file: from then on it survives a crash."""
        self._runner.run(self._inner.saved())


class LocalCopy(Blocking[AsyncLocalCopy]):
    """A copy of a document, for one or more threads."""

    close = waits(AsyncLocalCopy.close)
    settled = waits(AsyncLocalCopy.settled)
    forget_rejected = waits(AsyncLocalCopy.forget_rejected)

    def _do(self, work: Callable[[], T]) -> T:
        """On the client's thread, which alone may touch the copy."""

        async def run() -> T:
            return work()

        return self._runner.run(run())

    @property
    def value(self) -> Any:
        """The document with all pending edits, as plain Python with `bytes`; a copy."""
        return self.get()

    def get(self, path: str = "") -> Any:
        """A part of it. Raises `NotFound`."""
        return self._do(lambda: self._inner.get(path))

    @property
    def state(self) -> CopyState:
        """Value, version and number of pending edits, of one moment."""
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
        """Apply operations of JSON Patch; they show at once. Raises as the asynchronous copy."""
        return Edit(self._runner, self._do(lambda: self._inner.patch(*operations, guard=guard)))

    def edit(
        self,
        function: Callable[[Any], list[dict[str, Any]] | None],
        guard: Guard | None = None,
    ) -> Edit:
        """Apply the operations that a function answers for the document. It runs on the client's
        thread, and again where somebody else changes the document first."""
        return Edit(self._runner, self._do(lambda: self._inner.edit(function, guard)))

    def watch(self) -> Iterator[CopyState]:
        """What the copy shows, now and whenever that changes."""
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
