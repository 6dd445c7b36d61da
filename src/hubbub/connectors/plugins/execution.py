"""Runs the coroutines of plugins in a worker: an event loop that supports only sleeping and calls
to the hub."""

from __future__ import annotations

import contextlib
import heapq
import time
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import msgspec

from hubbub.connectors.plugins.protocol import MAX_STATUS, CallEnded, CallReply, CallRequest
from hubbub.domain.commands.status import Status
from hubbub.domain.payloads import MAX_COMMAND_DEPTH, is_deeper

MAX_RESULT_BYTES = 1024 * 1024
MAX_TEXT = 1000
_PLACE_CHARS = 100
_LONGEST_WAIT_SECONDS = 3600.0
"""Longer than any call, and short enough for the operating system's timers."""


_decode = msgspec.json.decode


class CommandRefused(Exception):
    """Raised by a plugin to return a status with a text, and raised to it when its context
    refuses."""

    def __init__(self, status: int = int(Status.INVALID), text: str = "") -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class Cancelled(BaseException):
    """The call was cancelled."""


class _Sleep:
    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __await__(self) -> Generator[Any, Any, Any]:
        yield self


class PendingResponse:
    """A request to the hub; awaiting it returns the response, or raises `CommandRefused`."""

    __slots__ = ("arguments", "operation")

    def __init__(self, operation: str, arguments: object) -> None:
        self.operation = operation
        self.arguments = msgspec.Raw(_flat_enough(msgspec.json.encode(arguments)))

    def __await__(self) -> Generator[Any, Any, Any]:
        return (yield self)


async def sleep(delay: float, result: object = None) -> object:
    """Like `asyncio.sleep`."""
    await _Sleep(delay)
    return result


class _RunningCall:
    __slots__ = ("cancelled", "coroutine", "id", "waits_for_reply")

    def __init__(self, number: int, coroutine: Coroutine[Any, Any, Any]) -> None:
        self.id = number
        self.coroutine = coroutine
        self.cancelled = False
        self.waits_for_reply = False


class Execution:
    """All unfinished calls. `send` sends to the hub."""

    def __init__(self, send: Callable[[CallRequest | CallEnded], None]) -> None:
        self._send = send
        self._calls: dict[int, _RunningCall] = {}
        self._sleeping: list[tuple[float, int]] = []

    def begin(self, number: int, coroutine: Coroutine[Any, Any, Any]) -> None:
        call = self._calls[number] = _RunningCall(number, coroutine)
        self._step(call, coroutine.send, None)

    def reply(self, reply: CallReply) -> None:
        call = self._calls.get(reply.id)
        if call is None or not call.waits_for_reply:
            return
        call.waits_for_reply = False
        if reply.status == 0:
            self._step(call, lambda value: call.coroutine.send(_decode(value)), reply.value)
        else:
            self._step(call, call.coroutine.throw, CommandRefused(reply.status, reply.text))

    def cancel(self, number: int) -> None:
        call = self._calls.get(number)
        if call is not None:
            call.cancelled, call.waits_for_reply = True, False
            self._step(call, call.coroutine.throw, Cancelled())

    def seconds_until_due(self) -> float | None:
        """None if no call sleeps."""
        if not self._sleeping:
            return None
        return min(max(0.0, self._sleeping[0][0] - time.monotonic()), _LONGEST_WAIT_SECONDS)

    def wake_due(self) -> None:
        now = time.monotonic()
        while self._sleeping and self._sleeping[0][0] <= now:
            call = self._calls.get(heapq.heappop(self._sleeping)[1])
            if call is not None:
                self._step(call, call.coroutine.send, None)

    def _step(self, call: _RunningCall, resume: Callable[[Any], object], value: object) -> None:
        try:
            wanted = resume(value)
            while call.cancelled and isinstance(wanted, PendingResponse):
                over = CommandRefused(int(Status.TIMEOUT), "the call is over")
                wanted = call.coroutine.throw(over)
            if isinstance(wanted, PendingResponse):
                call.waits_for_reply = True
                self._send(CallRequest(call.id, wanted.operation, wanted.arguments))
            elif isinstance(wanted, _Sleep):
                due = time.monotonic() + max(0.0, float(wanted.seconds))
                heapq.heappush(self._sleeping, (due, call.id))
            else:
                raise TypeError("a plugin awaits asyncio.sleep and its context, and nothing else")
        except StopIteration as stop:
            self._end(call, *_encoded(stop.value))
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the plugin's
            self._end(call, *_failure(error), retire=isinstance(error, MemoryError))

    def _end(
        self, call: _RunningCall, status: int, result: msgspec.Raw, retire: bool = False
    ) -> None:
        del self._calls[call.id]
        with contextlib.suppress(BaseException):  # of code that holds on to its last moment
            call.coroutine.close()
        self._send(CallEnded(call.id, status, result, retire))


def _outcome(value: object) -> tuple[int, msgspec.Raw]:
    """A tuple of an integer and a value is a status with its result; any other value is a
    result."""
    status = 0
    if isinstance(value, tuple) and len(value) == 2 and type(value[0]) is int:
        status, value = value
    if not 0 <= status <= MAX_STATUS:
        raise ValueError(f"the status {status} is not one")
    encoded = _flat_enough(msgspec.json.encode(value))
    if len(encoded) > MAX_RESULT_BYTES:
        raise ValueError(f"the result has {len(encoded)} bytes; at most {MAX_RESULT_BYTES}")
    return status, msgspec.Raw(encoded)


def _flat_enough(encoded: bytes) -> bytes:
    if is_deeper(encoded, MAX_COMMAND_DEPTH):
        raise ValueError(f"the value has more than {MAX_COMMAND_DEPTH} levels; make it flatter")
    return encoded


def _encoded(value: object) -> tuple[int, msgspec.Raw]:
    try:
        return _outcome(value)
    except BaseException as error:  # noqa: BLE001 - also of code that runs as it is encoded
        return _failure(error)


def _failure(error: BaseException) -> tuple[int, msgspec.Raw]:
    if isinstance(error, Cancelled):
        return int(Status.TIMEOUT), _text("the call took too long")
    try:
        if (
            isinstance(error, CommandRefused)
            and type(error.status) is int
            and 0 < error.status <= MAX_STATUS
        ):
            return error.status, _text(str(error.text))
        said = f"{type(error).__name__}: {error}"[: MAX_TEXT - _PLACE_CHARS]
        return int(Status.TECHNICAL), _text(said + _place(error))
    except BaseException:  # noqa: BLE001 - an error that cannot even be told
        return int(Status.TECHNICAL), _text("the plugin failed")


def _place(error: BaseException) -> str:
    """The innermost line of the plugin's file; the files of the hub have whole paths."""
    found, trace = "", error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if "/" not in file and file.endswith(".py"):
            found = f" ({file}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return found[:_PLACE_CHARS]


def _text(text: str) -> msgspec.Raw:
    readable = text[:MAX_TEXT].encode(errors="replace").decode()  # without lone surrogates
    return msgspec.Raw(msgspec.json.encode(readable))
