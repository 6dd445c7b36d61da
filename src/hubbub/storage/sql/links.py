"""The way from a store to its database: calls wait in a fair queue and are answered in groups."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from hubbub.domain.errors import HubbubError, Internal, StoreUnavailable, catalogue
from hubbub.storage.sql.fair_queue import FairQueue, Limits, QueuedCall

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")
Group = list[QueuedCall]
"""One operation, or calls merged into one."""

_ERRORS = catalogue()
OPERATION_BYTES = 256


class Link:
    """Base of the links; what becomes of the queue is up to each.

    `merged` names the method whose calls, where they stand side by side in a batch, are run as
    one: its only argument is a list, and it answers with what was refused, by `index`.
    """

    def __init__(self, limits: Limits, merged: Callable[..., Any] | None = None) -> None:
        self._queue = FairQueue(limits)
        self._merged = merged
        self._refusing: HubbubError | None = StoreUnavailable("the store is not open")
        self._held: dict[str, HubbubError] = {}
        """By lane, what calls are told that may not be queued in it."""

    def hold(self, lane: str, error: HubbubError) -> None:
        """Calls in this lane raise the error from now on, except those that know better."""
        self._held[lane] = error

    def release(self, lane: str) -> None:
        self._held.pop(lane, None)

    def call(
        self,
        lane: str,
        method: Callable[Concatenate[T, P], Coroutine[Any, Any, R]],
        *arguments: P.args,
        **_: P.kwargs,
    ) -> asyncio.Future[R]:
        """Run a method of the operations' class over there."""
        return self.submit(lane, method, arguments)

    def submit(
        self,
        lane: str,
        method: Callable[..., Any],
        arguments: Sequence[Any],
        weight: int = 1,
        size: int = OPERATION_BYTES,
        held: bool = True,
    ) -> asyncio.Future[Any]:
        """Queue an operation; raises `StoreUnavailable` where there is no room or no database, and
        what `hold` said, unless `held` is False."""
        if self._refusing is not None:
            raise copy(self._refusing)
        if held and lane in self._held:
            raise copy(self._held[lane])
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._queue.put(lane, QueuedCall(method, arguments, weight, size, future))
        self._queued()
        return future

    def _queued(self) -> None:
        """Something waits in the queue."""
        raise NotImplementedError

    def _group(self, operations: Sequence[QueuedCall]) -> list[Group]:
        groups: list[Group] = []
        for waiting in operations:
            if groups and waiting.method is self._merged and groups[-1][0].method is self._merged:
                groups[-1].append(waiting)
            else:
                groups.append([waiting])
        return groups

    def _arguments(self, group: Group) -> Sequence[Any]:
        if group[0].method is self._merged:
            return ([item for waiting in group for item in waiting.arguments],)
        return group[0].arguments

    def _finish_group(self, group: Group, answer: Any) -> None:
        if group[0].method is self._merged:
            self._finish_merged(group, answer)
        else:
            self._finish(group[0], answer)

    def _finish_merged(self, group: Group, refusals: Sequence[Any]) -> None:
        """Give each call the refusals of its own elements."""
        errors = {refusal.index: error_of(refusal) for refusal in refusals}
        start = 0
        for waiting in group:
            end = start + waiting.weight
            if errors:
                self._finish(waiting, [errors.get(index) for index in range(start, end)])
            else:
                self._finish(waiting, [None] * waiting.weight)
            start = end

    def _fail_group(self, group: Group, error: HubbubError) -> None:
        for waiting in group:
            self._finish(waiting, error=error)

    def _fail_queue(self, error: HubbubError) -> None:
        while self._queue:
            self._fail_group(self._queue.take_batch(), error)

    def _finish(
        self, waiting: QueuedCall, answer: object = None, error: HubbubError | None = None
    ) -> None:
        self._queue.release(waiting)
        if waiting.future.done():
            return  # whoever awaited it was cancelled
        if error is not None:
            waiting.future.set_exception(copy(error))
        else:
            waiting.future.set_result(answer)


def error_of(fault: Any) -> HubbubError:
    """From anything that carries a code and a message."""
    return _ERRORS.get(fault.code, Internal)(fault.message)


def copy(error: HubbubError) -> HubbubError:
    """A new instance for each caller: an exception collects the tracebacks of everyone that raises
    it."""
    return type(error)(error.message)
