"""Plugin workers of a hub process: schedules calls on worker processes.

A worker process serves one hub for its whole life, so that no data of a tenant remains where
another tenant's calls run. Hubs get workers in fair shares, each with its own queue. A call that
exceeds its timeout is cancelled; if its code does not stop, the process is killed and replaced.
Calls running in that process fail; queued ones go to another process.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from pathlib import Path

import msgspec

from hubbub.connectors.plugins.folder import Folder, read_folder
from hubbub.connectors.plugins.process import PluginProcess, WorkerLost
from hubbub.connectors.plugins.protocol import (
    MAX_FRAME_BYTES,
    CallEnded,
    CallReply,
    CallRequest,
    Cancel,
    FromWorker,
    LoadFile,
    Run,
    Started,
)
from hubbub.domain.commands.status import Status
from hubbub.domain.payloads import MAX_COMMAND_DEPTH, is_deeper
from hubbub.domain.plugins.findings import Violation
from hubbub.domain.plugins.shape import PluginShape
from hubbub.domain.shares import FairShare
from hubbub.ports.plugins import PluginCall, PluginHost, PluginReply, Plugins
from hubbub.tasks import TaskSet

logger = logging.getLogger(__name__)

CPU_SECONDS = 3600
CALLS_OF_A_WORKER = 16
"""Concurrent calls in one process: code that awaits lets other calls run."""
WAITING_CALLS = 256
"""Queued calls of one hub, besides running ones."""
ASKS_OF_A_CALL = 1000
"""A call is ended if it makes more requests to its context: each one is work for the hub."""
GRACE_SECONDS = 0.5
"""Time for a cancelled call to end."""
_LONGEST_PAUSE_SECONDS = 30.0
_OVERHEAD_BYTES = 64 * 1024
"""The bytes of a frame besides its document."""
_TOO_DEEP = PluginReply(
    int(Status.INVALID), text=f"more than {MAX_COMMAND_DEPTH} levels; plugins take flatter values"
)


class PluginLimits(msgspec.Struct, frozen=True):
    workers: int = 4
    memory_bytes: int = 64 * 1024 * 1024
    analyse: bool = True


class _Call:
    """A call from its request until its worker has ended it."""

    __slots__ = (
        "answer", "asks", "call", "deadline", "host", "hub", "id", "started", "waits_for_reply",
    )  # fmt: skip

    def __init__(self, number: int, hub: str, call: PluginCall, host: PluginHost) -> None:
        loop = asyncio.get_running_loop()
        self.id = number
        self.hub = hub
        self.call = call
        self.host = host
        self.answer: asyncio.Future[PluginReply] = loop.create_future()
        self.deadline: asyncio.TimerHandle | None = None
        self.started = False
        self.asks = 0
        self.waits_for_reply = False

    def settle(self, reply: PluginReply) -> None:
        if self.deadline is not None:
            self.deadline.cancel()
        if not self.answer.done():
            self.answer.set_result(reply)


class _PluginProcess:
    """A process that has loaded all plugins. `hub` is None until its first call."""

    __slots__ = ("hub", "process", "retiring", "under_way")

    def __init__(self) -> None:
        self.process: PluginProcess
        self.hub: str | None = None
        self.under_way: dict[int, _Call] = {}
        self.retiring = False

    @property
    def takes_more(self) -> bool:
        """While a call waits to start, another one is computing; more calls would only wait."""
        calls = self.under_way.values()
        return len(calls) < CALLS_OF_A_WORKER and all(call.started for call in calls)


class PluginWorkers(Plugins):
    """Runs on the event loop's thread: call `start`, and finally `stop`."""

    def __init__(self, folder: Path, limits: PluginLimits) -> None:
        self._folder = folder
        self._limits = limits
        self._seen = Folder()
        self._loads: list[LoadFile] = []
        """The files that a new worker loads."""
        self._shapes: dict[str, PluginShape] = {}
        self.refused: dict[str, tuple[Violation, ...]] = {}
        """Violations by path of each rejected file."""
        self.unavailable = "the plugins are not loaded yet"
        """Why no plugin runs; empty if plugins run."""
        self._workers: list[_PluginProcess] = []
        """Least recently used first."""
        self._processes: set[PluginProcess] = set()
        """All processes that have not fully ended, including those that are starting or ending."""
        self._starting = 0
        self._share = FairShare(limits.workers)
        self._waiting: dict[str, deque[_Call]] = {}
        self._numbers = 0
        self._failures = 0
        self._tasks = TaskSet()
        self._stopped = False
        self.kills = 0
        """How many processes were killed because of their calls."""

    # -- life ---------------------------------------------------------------------------------

    async def start(self) -> None:
        """Loads the folder and starts the workers. Never raises: problems are logged, and calls
        fail as unavailable."""
        await self.reload()

    async def stop(self) -> None:
        self._stopped = True
        self._refuse_waiting("the hub is stopping")
        await self._tasks.end()
        await asyncio.gather(*map(self._reap, list(self._processes)))
        await self._tasks.settle()

    async def reload_changed(self) -> None:
        """For developers: reloads the folder if a file in it changed."""
        folder = await self._read_folder()
        if folder is not None and folder != self._seen:
            logger.info("plugins changed; loading %s again", self._folder)
            await self.reload()

    async def reload(self) -> None:
        """Reloads the folder. Running calls end in their processes."""
        folder = await self._read_folder()
        if folder is None:
            return
        self._seen = folder
        self.refused = {path: (violation,) for path, violation in folder.refused}
        earlier = list(self._workers)
        try:
            self._shapes, self._loads = await self._discover(folder)
        except (WorkerLost, OSError) as error:
            self.unavailable = f"plugins need limits of the operating system: {error}"
            logger.error("no plugin is loaded: %s", self.unavailable)
            return
        finally:
            for worker in earlier:
                self._retire(worker)
        self.unavailable = ""
        for path, violations in self.refused.items():
            logger.error("plugin %s is refused: %s", path, "; ".join(map(str, violations)))
        logger.info("plugins: %s", ", ".join(sorted(self._shapes)) or "none")
        self._fill()
        self._assign()

    async def _read_folder(self) -> Folder | None:
        try:
            return await asyncio.to_thread(read_folder, self._folder)
        except OSError as error:
            self.unavailable = f"the folder {self._folder} cannot be read ({error.strerror})"
            logger.error("no plugin is loaded: %s", self.unavailable)
            return None

    async def _discover(self, folder: Folder) -> tuple[dict[str, PluginShape], list[LoadFile]]:
        """Loads every file in a worker, which reports its entry points; the hub itself never parses
        it. A file that crashes its worker is rejected, too."""
        shapes: dict[str, PluginShape] = {}
        accepted: list[LoadFile] = []
        worker = await self._start_worker(accepted)
        for file in folder.files:
            load = LoadFile(file.name, file.source, self._limits.analyse)
            try:
                loaded = await worker.process.load(load)
            except WorkerLost as lost:
                crash = Violation(1, "load", str(lost), "correct what runs as the file is loaded")
                self.refused[file.path] = (crash,)
                worker = await self._start_worker(accepted)
                continue
            if loaded.violations:
                self.refused[file.path] = loaded.violations
            else:
                shapes[file.name] = loaded.shape
                accepted.append(load)
        if accepted and not any(found[0].rule == "load" for found in self.refused.values()):
            self._workers.append(worker)
        else:
            worker.process.kill("code that is refused ran in it, or there is none")
        return shapes, accepted

    # -- processes ----------------------------------------------------------------------------

    async def _start_worker(self, loads: list[LoadFile]) -> _PluginProcess:
        """Raises `WorkerLost` or `OSError`."""
        worker = _PluginProcess()
        worker.process = PluginProcess(
            self._limits.memory_bytes,
            CPU_SECONDS,
            lambda message: self._received(worker, message),
            lambda: self._lost(worker),
        )
        await worker.process.start()
        self._processes.add(worker.process)
        try:
            ready = await worker.process.ready()
            if ready.missing:
                raise WorkerLost(ready.missing)
            for load in loads:
                loaded = await worker.process.load(load)
                if loaded.violations:
                    raise WorkerLost(f"{load.name}: {loaded.violations[0]}")
        except BaseException:
            worker.process.kill("it did not start")
            raise
        return worker

    def _fill(self) -> None:
        """Starts processes up to the configured number."""
        if self._stopped or not self._loads:
            return
        while len(self._workers) + self._starting < self._limits.workers:
            self._starting += 1
            self._tasks.start(self._add_worker(self._loads))

    async def _add_worker(self, loads: list[LoadFile]) -> None:
        """Retries until it succeeds, with growing pauses."""
        try:
            if self._failures:
                pause = min(0.1 * 2 ** min(self._failures, 10), _LONGEST_PAUSE_SECONDS)
                await asyncio.sleep(pause)
            worker = await self._start_worker(loads)
            if loads is self._loads and worker.process.alive:
                self._workers.append(worker)
            else:
                worker.process.kill("other plugins are loaded by now")
            self._failures = 0
        except (WorkerLost, OSError) as error:
            self._failures += 1
            logger.error("a process for plugins did not start, will try again: %s", error)
        finally:
            self._starting -= 1
        self._fill()
        self._assign()

    def _retire(self, worker: _PluginProcess) -> None:
        """The worker accepts no more calls, and ends after its last one."""
        worker.retiring = True
        if not worker.under_way:
            worker.process.kill("it is replaced")

    async def _reap(self, process: PluginProcess) -> None:
        await process.end()
        self._processes.discard(process)

    def _lost(self, worker: _PluginProcess) -> None:
        self._tasks.start(self._reap(worker.process))
        if worker not in self._workers:
            return  # it was never ready, which whoever started it learns
        self._workers.remove(worker)
        if worker.under_way:
            self._share.give_back(worker.hub or "")
        why = worker.process.why or "it ended by itself"
        for call in worker.under_way.values():
            if call.started or self._stopped:
                text = f"the process that ran the command is gone: {why}"
                call.settle(PluginReply(int(Status.TECHNICAL), text=text))
            elif not call.answer.done():
                self._waiting.setdefault(call.hub, deque()).appendleft(call)
        worker.under_way.clear()
        self._fill()
        self._assign()

    # -- calls --------------------------------------------------------------------------------

    def find(self, name: str) -> PluginShape | None:
        return self._shapes.get(name.lower())

    def names(self) -> Mapping[str, PluginShape]:
        return self._shapes

    async def call(self, hub: str, call: PluginCall, host: PluginHost) -> PluginReply:
        if self.unavailable or self._stopped:
            text = "the plugins cannot be run now; the hub's log says why"  # with paths
            return PluginReply(int(Status.NOT_AVAILABLE), text=text)
        if len(call.document) > MAX_FRAME_BYTES - _OVERHEAD_BYTES:
            return PluginReply(int(Status.INVALID), text="the command is too large for a plugin")
        if is_deeper(call.document, MAX_COMMAND_DEPTH):
            return _TOO_DEEP
        queue = self._waiting.setdefault(hub, deque())
        if len(queue) >= WAITING_CALLS:
            text = f"{len(queue)} plugin commands of {hub} wait already; send it again later"
            return PluginReply(int(Status.NOT_AVAILABLE), text=text)
        self._numbers += 1
        asked = _Call(self._numbers, hub, call, host)
        queue.append(asked)
        loop = asyncio.get_running_loop()
        asked.deadline = loop.call_later(call.timeout_ms / 1000, self._expire, asked)
        self._assign()
        try:
            return await asked.answer
        except asyncio.CancelledError:
            self._expire(asked)
            raise

    def _assign(self) -> None:
        """Assigns queued calls to workers, hubs in turn, while there are workers."""
        assigned = not self.unavailable
        while assigned:
            assigned = False
            for hub in list(self._waiting):
                queue = self._waiting[hub]
                worker = self._worker_for(hub) if queue else None
                if worker is not None:
                    self._run(worker, queue.popleft())
                    assigned = True
                if not queue:
                    del self._waiting[hub]

    def _worker_for(self, hub: str) -> _PluginProcess | None:
        """An idle worker of the hub, or an unused one, or a worker of the hub with running
        calls."""
        working = [worker for worker in self._workers if not worker.retiring]
        if self._share.may_take(hub):
            idle = [worker for worker in working if not worker.under_way]
            for mine in (hub, None):
                for worker in idle:
                    if worker.hub == mine:
                        return worker
            if idle and not self._starting and len(working) == len(self._workers):
                idle[0].retiring = True
                idle[0].process.kill("another hub needs its place")
        busy = [worker for worker in working if worker.hub == hub and worker.takes_more]
        return min(busy, key=lambda worker: len(worker.under_way), default=None)

    def _run(self, worker: _PluginProcess, call: _Call) -> None:
        if not worker.under_way:
            self._share.take(call.hub)
        worker.hub = call.hub
        worker.under_way[call.id] = call
        self._workers.remove(worker)
        self._workers.append(worker)
        given = call.call
        worker.process.send(
            Run(
                call.id,
                given.name.lower(),
                given.function,
                msgspec.Raw(given.document),
                given.context,
            )
        )

    def _expire(self, call: _Call) -> None:
        """The call timed out or was cancelled by its caller."""
        text = f"{call.call.name} did not end within {call.call.timeout_ms} ms"
        self._end(call, PluginReply(int(Status.TIMEOUT), text=text))

    def _end(self, call: _Call, reply: PluginReply) -> None:
        """Completes the call now, and cancels its code."""
        call.settle(reply)
        queue = self._waiting.get(call.hub)
        if queue is not None and call in queue:
            queue.remove(call)
            return
        for worker in self._workers:
            if call.id in worker.under_way:
                worker.process.send(Cancel(call.id))
                loop = asyncio.get_running_loop()
                loop.call_later(GRACE_SECONDS, self._insist, worker, call)

    def _insist(self, worker: _PluginProcess, call: _Call) -> None:
        if call.id not in worker.under_way:
            return
        if not call.started:  # behind another one, which is cancelled in its own time
            loop = asyncio.get_running_loop()
            loop.call_later(GRACE_SECONDS, self._insist, worker, call)
            return
        name = call.call.name
        logger.warning("hub %s: plugin %s does not end; its process is killed", call.hub, name)
        self._kill(worker, f"{name} did not end in time")

    def _kill(self, worker: _PluginProcess, why: str) -> None:
        self.kills += 1
        worker.process.kill(why)

    def _refuse_waiting(self, text: str) -> None:
        for queue in self._waiting.values():
            for call in queue:
                call.settle(PluginReply(int(Status.NOT_AVAILABLE), text=text))
        self._waiting.clear()

    # -- what workers say ---------------------------------------------------------------------

    def _received(self, worker: _PluginProcess, message: FromWorker) -> None:
        call = None
        if isinstance(message, Started | CallEnded | CallRequest):
            call = worker.under_way.get(message.id)
        match message:
            case Started() if call is not None and not call.started:
                call.started = True
                self._assign()
            case CallEnded() if call is not None and call.started:
                self._ended(worker, call, message)
            case CallRequest() if call is not None and call.started and not call.waits_for_reply:
                call.waits_for_reply = True
                call.asks += 1
                if call.asks > ASKS_OF_A_CALL:
                    text = f"{call.call.name} asked its context more than {ASKS_OF_A_CALL} times"
                    self._end(call, PluginReply(int(Status.TECHNICAL), text=text))
                else:
                    self._tasks.start(self._answer(worker, call, message))
            case _:
                self._kill(worker, "it said what no worker says")

    def _ended(self, worker: _PluginProcess, call: _Call, ended: CallEnded) -> None:
        del worker.under_way[call.id]
        result = bytes(ended.result)
        deep = is_deeper(result, MAX_COMMAND_DEPTH)
        call.settle(_TOO_DEEP if deep else PluginReply(ended.status, result))
        if not worker.under_way:
            self._share.give_back(call.hub)
        if ended.retire or worker.retiring:
            self._retire(worker)
        self._assign()

    async def _answer(self, worker: _PluginProcess, call: _Call, ask: CallRequest) -> None:
        arguments = bytes(ask.arguments)
        deep = is_deeper(arguments, MAX_COMMAND_DEPTH)
        reply = _TOO_DEEP if deep else await call.host.ask(ask.operation, arguments)
        if is_deeper(reply.value, MAX_COMMAND_DEPTH):
            reply = _TOO_DEEP
        if len(reply.value) > MAX_FRAME_BYTES - _OVERHEAD_BYTES:
            reply = PluginReply(int(Status.INVALID), text="the answer is too large; ask for less")
        call.waits_for_reply = False
        if call.id in worker.under_way:
            value = msgspec.Raw(reply.value)
            worker.process.send(CallReply(call.id, reply.status, value, reply.text))
