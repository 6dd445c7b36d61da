"""The queue between a store and its database: calls wait in a fair queue and run in groups."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from hubbub.domain.audit import AuditEntry
from hubbub.domain.errors import HubbubError, Internal, StoreUnavailable, catalogue
from hubbub.storage.sql.fair_queue import Bound, FairQueue, QueuedCall, QueueLimits

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")
Group = list[QueuedCall]
"""One operation, or several calls merged into one."""

_ERRORS = catalogue()
OPERATION_BYTES = 256


class StoreLink:
    """Base class of links; subclasses run the queue.

    `merged` names the method whose adjacent calls in a batch are run as one: its only argument is a
    list, and it returns refusals by `index`.
    """

    def __init__(self, limits: QueueLimits, merged: Callable[..., Any] | None = None) -> None:
        self._queue = FairQueue(limits)
        self._merged = merged
        self._refusing: HubbubError | None = StoreUnavailable("the store is not open")
        self._held: dict[str, HubbubError] = {}
        """Errors for calls that may not be queued, by lane."""

    @property
    def problem(self) -> str | None:
        """Why calls are refused at the moment, in public words; None if they are not."""
        return None if self._refusing is None else self._refusing.message

    def look_again(self) -> None:
        """Checks whether a problem appeared or ended; call it about every second."""

    def hold(self, lane: str, error: HubbubError) -> None:
        """Makes calls in this lane raise the error, except those with `held=False`."""
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
        """Runs a method of the operations' class in the database process."""
        return self.submit(lane, method, arguments)

    def submit(
        self,
        lane: str,
        method: Callable[..., Any],
        arguments: Sequence[Any],
        weight: int = 1,
        size: int = OPERATION_BYTES,
        held: bool = True,
        bound: Bound | None = None,
        audit: AuditEntry | None = None,
    ) -> asyncio.Future[Any]:
        """Queues an operation. Raises `StoreUnavailable` if the queue is full or there is no
        database, and the error of `hold` unless `held` is False."""
        if self._refusing is not None:
            raise copy(self._refusing)
        if held and lane in self._held:
            raise copy(self._held[lane])
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._queue.put(lane, QueuedCall(method, arguments, weight, size, future, bound, audit))
        self._queued()
        return future

    def _queued(self) -> None:
        """Called after an operation was queued."""
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
        """Gives each call the refusals of its own elements."""
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
    """Rebuilds an error from an object with a code, a message and a detail."""
    return _ERRORS.get(fault.code, Internal)(fault.message).with_detail(fault.detail)


def copy(error: HubbubError) -> HubbubError:
    """Each caller needs its own instance, since an exception collects tracebacks."""
    return type(error)(error.message).with_detail(error.detail)
