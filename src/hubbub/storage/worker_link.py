"""The hub's end of a worker process: a fair, bounded queue of operations, sent in batches.

Everything happens on the event loop. Operations wait in lanes, one per hub; a batch takes from
the lanes in turns, so that one hub's flood cannot hold up another's single write. While batches
are under way, further operations gather for the next one: group commit.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec

import hubbub
from hubbub.domain.errors import HubbubError, Internal, StoreUnavailable, catalogue
from hubbub.storage.worker_protocol import (
    HEADER_BYTES,
    BatchOutcome,
    WorkerOptions,
    answer_decoder,
    encoder,
    frame,
    outcome_decoder,
    ready_decoder,
)

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")

_ERRORS = catalogue()


class Limits(msgspec.Struct, frozen=True):
    """`weight` counts messages; other operations weigh 1. What is under way counts as pending."""

    batch_weight: int = 2000
    batch_bytes: int = 4 * 1024 * 1024
    turn_weight: int = 64
    pending_weight: int = 200_000
    pending_bytes: int = 128 * 1024 * 1024
    lane_share: float = 0.5
    batches_under_way: int = 2


class Waiting:
    """An operation, and whoever awaits it."""

    __slots__ = ("arguments", "future", "method", "size", "weight")

    def __init__(
        self,
        method: Callable[..., Any],
        arguments: Sequence[Any],
        weight: int,
        size: int,
        future: asyncio.Future[Any],
    ) -> None:
        self.method = method
        self.arguments = arguments
        self.weight = weight
        self.size = size
        self.future = future


class _Lane:
    __slots__ = ("size", "waiting", "weight")

    def __init__(self) -> None:
        self.waiting: deque[Waiting] = deque()
        self.weight = 0
        self.size = 0


class WorkerLink(asyncio.Protocol):
    """One worker process. `merged` names the method whose calls, where they stand side by side
    in a batch, are sent as one; its only argument is a list and its answer tells of the elements
    by `index`."""

    def __init__(
        self, options: WorkerOptions, limits: Limits, merged: Callable[..., Any] | None = None
    ) -> None:
        self._options = options
        self._limits = limits
        self._merged = merged
        self._lanes: dict[str, _Lane] = {}
        self._under_way: deque[list[list[Waiting]]] = deque()
        self._weight = 0
        self._size = 0
        self._flush_scheduled = False
        self._received = bytearray()
        self._closed_because: HubbubError | None = StoreUnavailable("the store is not open")

    # -- life ---------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the process and wait until it has opened the database."""
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self._idle: asyncio.Future[None] | None = None
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = _start_process(self._options, theirs)
        self._transport, _ = await self._loop.create_unix_connection(lambda: self, sock=ours)
        try:
            await self._ready
        except BaseException:
            await self._end()
            raise
        self._closed_because = None

    async def close(self) -> None:
        """Take nothing more, finish what was taken, and end the process."""
        if self._closed_because is not None:
            return
        self._closed_because = StoreUnavailable("the store is closed")
        if self._weight:
            self._idle = self._loop.create_future()
            await self._idle
        await self._end()

    async def _end(self) -> None:
        if self._transport.can_write_eof() and not self._transport.is_closing():
            self._transport.write_eof()
        await self._gone
        await self._loop.run_in_executor(None, self._process.wait)

    # -- sending ------------------------------------------------------------------------------

    def call(
        self,
        lane: str,
        method: Callable[Concatenate[T, P], R],
        *arguments: P.args,
        **_: P.kwargs,
    ) -> asyncio.Future[R]:
        """Run a method of the worker's class over there."""
        return self.submit(lane, method, arguments, 1, 256)

    def submit(
        self,
        lane_name: str,
        method: Callable[..., Any],
        arguments: Sequence[Any],
        weight: int,
        size: int,
    ) -> asyncio.Future[Any]:
        """Queue an operation; raises `StoreUnavailable` where there is no room or no worker."""
        if self._closed_because is not None:
            raise self._closed_because
        lane = self._lanes.get(lane_name)
        if lane is None:
            lane = self._lanes[lane_name] = _Lane()
        limits = self._limits
        if (
            self._weight >= limits.pending_weight
            or self._size >= limits.pending_bytes
            or lane.weight >= limits.pending_weight * limits.lane_share
            or lane.size >= limits.pending_bytes * limits.lane_share
        ):
            raise StoreUnavailable(
                f"the store is behind by {self._weight} messages ({lane.weight} of hub"
                f" {lane_name!r}); send more slowly"
            )
        self._weight += weight
        self._size += size
        lane.weight += weight
        lane.size += size
        future: asyncio.Future[Any] = self._loop.create_future()
        lane.waiting.append(Waiting(method, arguments, weight, size, future))
        if not self._flush_scheduled and len(self._under_way) < limits.batches_under_way:
            self._flush_scheduled = True
            self._loop.call_soon(self._flush)
        return future

    def _flush(self) -> None:
        self._flush_scheduled = False
        while self._lanes and len(self._under_way) < self._limits.batches_under_way:
            batch = self._group(self._take_batch())
            try:
                data = frame([[[_name(group), self._arguments(group)] for group in batch]])
            except Exception:  # noqa: BLE001 - answered to whoever brought it
                batch = self._encodable(batch)
                data = frame([[[_name(group), self._arguments(group)] for group in batch]])
            self._under_way.append(batch)
            self._transport.write(data)

    def _take_batch(self) -> list[Waiting]:
        """Fill a batch by turns of the lanes. A lane that has had its turn moves to the end."""
        limits = self._limits
        batch: list[Waiting] = []
        weight = size = 0
        while self._lanes and weight < limits.batch_weight and size < limits.batch_bytes:
            name = next(iter(self._lanes))
            lane = self._lanes.pop(name)
            turn = limits.turn_weight if self._lanes else limits.batch_weight
            while lane.waiting and turn > 0 and size < limits.batch_bytes:
                waiting = lane.waiting.popleft()
                batch.append(waiting)
                turn -= waiting.weight
                weight += waiting.weight
                size += waiting.size
                lane.weight -= waiting.weight
                lane.size -= waiting.size
            if lane.waiting:
                self._lanes[name] = lane
        return batch

    def _group(self, batch: list[Waiting]) -> list[list[Waiting]]:
        groups: list[list[Waiting]] = []
        for waiting in batch:
            if groups and waiting.method is self._merged and groups[-1][0].method is self._merged:
                groups[-1].append(waiting)
            else:
                groups.append([waiting])
        return groups

    def _arguments(self, group: list[Waiting]) -> Sequence[Any]:
        if group[0].method is self._merged:
            return ([item for waiting in group for item in waiting.arguments],)
        return group[0].arguments

    def _encodable(self, batch: list[list[Waiting]]) -> list[list[Waiting]]:
        """The batch without the operations that cannot be encoded, which fail."""
        good: list[Waiting] = []
        for waiting in (waiting for group in batch for waiting in group):
            try:
                encoder.encode(waiting.arguments)
            except Exception as error:  # noqa: BLE001 - answered to whoever brought it
                self._finish(waiting, error=Internal(f"this cannot be stored: {error!r}"))
            else:
                good.append(waiting)
        return self._group(good)

    # -- receiving ----------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        while len(received) >= HEADER_BYTES:
            end = HEADER_BYTES + int.from_bytes(received[:HEADER_BYTES], "little")
            if len(received) < end:
                return
            body = bytes(received[HEADER_BYTES:end])
            del received[:end]
            self._frame_received(body)

    def _frame_received(self, body: bytes) -> None:
        if not self._ready.done():
            fault = ready_decoder.decode(body).fault
            if fault is None:
                self._ready.set_result(None)
            else:
                self._ready.set_exception(_error(fault))
            return
        self._batch_done(self._under_way.popleft(), outcome_decoder.decode(body))
        if self._lanes and not self._flush_scheduled:
            self._flush()
        if self._idle is not None and not self._weight and not self._idle.done():
            self._idle.set_result(None)

    def _batch_done(self, batch: list[list[Waiting]], result: BatchOutcome) -> None:
        if result.fault is not None:
            for group in batch:
                self._finish_all(group, error=_error(result.fault))
            return
        for group, outcome in zip(batch, result.outcomes, strict=True):
            if outcome.fault is not None:
                self._finish_all(group, error=_error(outcome.fault))
                continue
            answer = answer_decoder(group[0].method).decode(outcome.answer)
            if group[0].method is self._merged:
                self._finish_merged(group, answer)
            else:
                self._finish(group[0], answer)

    def _finish_merged(self, group: list[Waiting], refusals: Sequence[Any]) -> None:
        """Hand each call the refusals of its own elements, by their place in that call."""
        by_index = {refusal.index: _error(refusal) for refusal in refusals}
        start = 0
        for waiting in group:
            end = start + waiting.weight
            self._finish(
                waiting,
                [by_index.get(index) for index in range(start, end)]
                if by_index
                else [None] * waiting.weight,
            )
            start = end

    def _finish_all(self, group: list[Waiting], error: HubbubError) -> None:
        for waiting in group:
            self._finish(waiting, error=error)

    def _finish(
        self, waiting: Waiting, answer: object = None, error: HubbubError | None = None
    ) -> None:
        self._weight -= waiting.weight
        self._size -= waiting.size
        if waiting.future.done():
            return  # whoever awaited it was cancelled
        if error is not None:
            waiting.future.set_exception(error)
        else:
            waiting.future.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        error = StoreUnavailable(
            f"the process that works on {self._options.path} ended unexpectedly; restart the hub"
        )
        if self._closed_because is None:
            self._closed_because = error
        if not self._ready.done():
            self._ready.set_exception(error)
        for batch in self._under_way:
            for group in batch:
                self._finish_all(group, error)
        self._under_way.clear()
        for lane in self._lanes.values():
            self._finish_all(list(lane.waiting), error)
        self._lanes.clear()
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)
        with contextlib.suppress(asyncio.InvalidStateError):
            self._gone.set_result(None)


def _name(group: list[Waiting]) -> str:
    return group[0].method.__name__


def _error(fault: Any) -> HubbubError:
    """From a `Fault`, or from anything else that carries a code and a message."""
    return _ERRORS.get(fault.code, Internal)(fault.message)


def _start_process(options: WorkerOptions, link: socket.socket) -> subprocess.Popen[bytes]:
    package_root = str(Path(hubbub.__file__).parents[1])
    inherited = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([package_root, inherited] if inherited else [package_root])
    return subprocess.Popen(  # noqa: S603 - our own module, our own interpreter
        [
            sys.executable,
            "-m",
            "hubbub.storage.sqlite_worker",
            msgspec.json.encode(options).decode(),
            str(link.fileno()),
        ],
        pass_fds=[link.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": path},
    )
