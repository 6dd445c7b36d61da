"""The plugin process: `main` of a fresh, isolated interpreter.

It holds no environment, files or secrets of the hub, only the code of the plugins and the data of
each call. It serves one hub for its whole life. It ends when the socket closes, or with the hub.
"""

from __future__ import annotations
import __future__

import _strptime  # type: ignore[import-not-found] # noqa: F401 - `datetime` needs it later
import os
import select
import signal
import sys
import time
import unicodedata  # noqa: F401 - the compiler needs it later, for identifiers and "\N{…}"
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from hubbub.connectors.plugins.context import Context
from hubbub.connectors.plugins.execution import Execution
from hubbub.connectors.plugins.modules import offered_builtins
from hubbub.connectors.plugins.protocol import (
    CallEnded,
    CallReply,
    CallRequest,
    Cancel,
    FromWorker,
    Loaded,
    LoadFile,
    Run,
    SandboxOptions,
    SandboxReady,
    Started,
    frame,
    from_hub,
)
from hubbub.connectors.plugins.sandbox import LimitsMissing, lock_down
from hubbub.domain.plugins.analysis import analyse, decode, shape_of
from hubbub.domain.plugins.findings import Analysed, Violation
from hubbub.frames import LengthPrefixReader

Function = Callable[[Any, Context], Coroutine[Any, Any, Any]]

_READ_BYTES = 1 << 16
_RETIRE_AT = 0.9
"""The share of the process's time limit at which it retires; at the limit, the kernel kills it."""


class _Worker:
    def __init__(self, options: SandboxOptions) -> None:
        self._link = options.link
        self._retire_seconds = options.cpu_seconds * _RETIRE_AT
        self._plugins: dict[str, dict[str, Any]] = {}
        self._execution = Execution(self._tell)
        self._frames = LengthPrefixReader()

    def serve(self) -> None:
        """Runs until the hub closes the socket."""
        incoming = select.poll()
        incoming.register(self._link, select.POLLIN)
        while True:
            wait = self._execution.seconds_until_due()
            if wait is not None and not incoming.poll(wait * 1000):
                self._execution.wake_due()
                continue
            received = os.read(self._link, _READ_BYTES)
            if not received:
                return
            for body in self._frames.feed(received):
                self._handle(from_hub.decode(body))
            self._execution.wake_due()

    def send(self, message: FromWorker) -> None:
        rest = memoryview(frame(message))
        while rest:
            rest = rest[os.write(self._link, rest) :]

    def _tell(self, message: CallRequest | CallEnded) -> None:
        if isinstance(message, CallEnded) and time.process_time() > self._retire_seconds:
            message = msgspec.structs.replace(message, retire=True)
        self.send(message)

    def _handle(self, message: LoadFile | Run | CallReply | Cancel) -> None:
        match message:
            case Run():
                self.send(Started(message.id))
                self._execution.begin(message.id, self._call(message))
            case CallReply():
                self._execution.reply(message)
            case Cancel():
                self._execution.cancel(message.id)
            case LoadFile():
                self._load(message)

    async def _call(self, run: Run) -> Any:
        function: Function = self._plugins[run.name][run.function]
        return await function(msgspec.json.decode(run.document), Context(run.context))

    def _load(self, load: LoadFile) -> None:
        found = analyse(load.source) if load.analyse else shape_of(load.source)
        if not found.violations:
            found = self._execute(load, found)
        self.send(Loaded(found.shape, found.violations))

    def _execute(self, load: LoadFile, found: Analysed) -> Analysed:
        namespace = {"__builtins__": offered_builtins(load.analyse), "__name__": load.name}
        flags = __future__.annotations.compiler_flag  # annotations are not evaluated
        try:
            code = compile(decode(load.source), f"{load.name}.py", "exec", flags, dont_inherit=True)
            exec(code, namespace)  # noqa: S102 - the purpose of this process
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the plugin's
            return Analysed(found.shape, (_load_failed(error, load.name),))
        self._plugins[load.name] = namespace
        return found


def _load_failed(error: BaseException, name: str) -> Violation:
    line, trace = 1, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == f"{name}.py":
            line = trace.tb_lineno
        trace = trace.tb_next
    text = f"{type(error).__name__}: {error}"[:200]
    return Violation(line, "load", text, "correct what runs as the file is loaded")


def main() -> None:
    # The hub decides when its workers end: a Ctrl-C reaches the whole group of processes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    options = msgspec.json.decode(sys.argv[1], type=SandboxOptions)
    worker = _Worker(options)
    try:
        lock_down(options.memory_bytes, options.cpu_seconds)
    except LimitsMissing as missing:
        worker.send(SandboxReady(str(missing)))
    else:
        try:
            worker.send(SandboxReady())
            worker.serve()
        finally:
            os._exit(0)  # at once, also when it fails: the hub replaces it
    os._exit(0)
