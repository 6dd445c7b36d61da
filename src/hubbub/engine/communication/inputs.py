"""The input adapters of a hub: those that listen, and those that are pulled."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Awaitable, Callable
from typing import cast

from hubbub.domain.communication.messages import PeerMessage
from hubbub.domain.communication.settings import AdapterSettings
from hubbub.domain.errors import BadRequest, Conflict, HubbubError, NotFound
from hubbub.engine.communication.committing import AGAIN_SECONDS
from hubbub.engine.communication.instances import Instances
from hubbub.ports.adapters import AdapterFailed, Pulled, PullInput, PushInput
from hubbub.ports.clock import Clock
from hubbub.tasks import TaskSet, is_cancelled

logger = logging.getLogger(__name__)

_MOST_REQUESTS = 100
"""Maximum number of pending pull requests per adapter."""
Take = Callable[[str, PeerMessage], Awaitable[str]]
"""Accepts a message from the named adapter and returns its id."""
Tell = Callable[[str, PeerMessage, str], Awaitable[None]]
"""Reports that a message from the named adapter was refused, and why."""
Remove = Callable[[str], Awaitable[None]]
"""Removes the named adapter from the settings of the hub."""
EndOf = Callable[[str], Awaitable[float | None]]
"""When the time to live of the message with this id ends, in seconds since 1970; None if the
message is unknown or never expires."""


class Puller:
    """Pulls one adapter: once at the start, then at each interval and on request, never
    concurrently."""

    def __init__(
        self,
        name: str,
        settings: AdapterSettings,
        instances: Instances,
        clock: Clock,
        take: Take,
        remove: Remove,
        tell: Tell,
        end_of: EndOf,
        at_end: Callable[[Puller], object],
    ) -> None:
        """`at_end` is called once the message whose reply the adapter awaits has expired."""
        self.name = name
        self.settings = settings
        self._instances = instances
        self._clock = clock
        self._take = take
        self._remove = remove
        self._tell = tell
        self._end_of = end_of
        self._at_end = at_end
        self._ends_at: float | None = None
        kind = instances.inputs[name][1]
        self._timeout = kind.timeout_seconds
        self._per_look = settings.max_per_look or kind.per_look
        self._adapter = cast(PullInput, instances.make_input(name))
        self._untaken: Pulled | None = None
        """A pulled message that could not be stored yet: some sources return each message only
        once."""
        self._requests: asyncio.Queue[asyncio.Future[None]] = asyncio.Queue(_MOST_REQUESTS)
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._over = False
        self._stopping = False
        self._settled = asyncio.Event()
        """Set while no message is between its pull and the end of `settle`."""
        self._settled.set()

    def pull(self) -> asyncio.Future[None]:
        """Returns when the pull has run. Raises `Conflict` if too many requests are pending."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            self._requests.put_nowait(done)
        except asyncio.QueueFull:
            raise Conflict(
                f"{_MOST_REQUESTS} pulls of the adapter {self.name!r} wait already; try later"
            ) from None
        return done

    async def last_look(self) -> None:
        """Pulls once more. If the adapter has seen something that cannot be taken yet, waits for
        it, at most as long as one pull may take."""
        await self.pull()
        end = self._clock.monotonic() + self._timeout
        while (seconds := self._pending_seconds()) > 0 and self._clock.monotonic() < end:
            await asyncio.sleep(seconds)
            await self.pull()

    def _pending_seconds(self) -> float:
        pending = getattr(self._adapter, "pending_seconds", None)
        return 0.0 if pending is None else float(pending())

    async def _run(self) -> None:
        interval = self.settings.interval_ms
        await self._guarded(self._begin)
        if interval is not None:
            await self._look(self._per_look)
        while not self._over:
            await self._guarded(self._learn_end)
            request: asyncio.Future[None] | None = None
            try:
                async with asyncio.timeout(self._pause_seconds()):
                    request = await self._requests.get()
            except TimeoutError:
                pass
            try:
                retries = request is None and self._untaken is not None
                await self._look(1 if retries else self._per_look)
            finally:
                if request is not None and not request.done():
                    request.set_result(None)
        await self._remove_at_last()

    async def _learn_end(self) -> None:
        """An adapter that awaits a reply ends with the message's time, whoever replied."""
        awaited = self.settings.awaits
        if awaited and self._ends_at is None:
            self._ends_at = await self._end_of(awaited)
        if self._ends_at is not None and self._ends_at <= self._clock.now():
            self._ends_at = math.inf
            self._at_end(self)

    def _pause_seconds(self) -> float | None:
        """Seconds until the next pull, the end of the awaited message, or the next attempt to store
        a pulled message; None: no limit."""
        interval, waits = self.settings.interval_ms, []
        if interval is not None:
            waits.append(interval / 1000)
        if self._untaken is not None:
            waits.append(AGAIN_SECONDS)
        if self._ends_at is not None and self._ends_at != math.inf:
            waits.append(max(0.0, self._ends_at - self._clock.now()))
        return min(waits, default=None)

    async def _remove_at_last(self) -> None:
        """Retries until the adapter is removed: after a restart it would be pulled again."""
        while True:
            try:
                await self._remove(self.name)
                return
            except HubbubError as error:
                figures = self._instances.figures_of(self.name)
                figures.note(f"cannot be removed yet: {error.message}", self._clock.now())
            await asyncio.sleep(AGAIN_SECONDS)

    async def _begin(self) -> None:
        begin = getattr(self._adapter, "begin", None)
        if begin is not None:
            async with asyncio.timeout(self._timeout):
                await begin()

    async def _look(self, most: int) -> None:
        await self._guarded(lambda: self._take_what_is_there(most))

    async def _take_what_is_there(self, most: int) -> None:
        figures = self._instances.figures_of(self.name)
        for _ in range(most):
            pulled = None if self._stopping else await self._pull_one()
            if pulled is None:
                return
            figures.note(None, self._clock.now())
            if self.settings.delete_if_successful:
                self._over = True
            if self._over or pulled.last:
                return

    async def _guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        """Logs an error of one pull; the schedule continues."""
        figures = self._instances.figures_of(self.name)
        try:
            await work()
        except TimeoutError:
            figures.note("the adapter took too long", self._clock.now())
        except HubbubError as error:
            figures.note(error.message, self._clock.now())
        except (Exception, asyncio.CancelledError, SystemExit) as error:  # code of others
            if is_cancelled():
                raise
            figures.note(str(error) or repr(error), self._clock.now())

    async def _pull_one(self) -> Pulled | None:
        pulled, self._untaken = self._untaken, None
        if pulled is None:
            async with asyncio.timeout(self._timeout):
                pulled = await self._adapter.pull()
        if pulled is None:
            return None
        if not isinstance(pulled, Pulled):
            raise AdapterFailed(f"the adapter gave {type(pulled).__name__!r} in place of a message")
        self._settled.clear()
        try:
            await self._take_or_refuse(pulled)
        finally:
            self._settled.set()
        return pulled

    async def _take_or_refuse(self, pulled: Pulled) -> None:
        """Accepts or refuses the message, then settles it at its source; if it cannot be stored now
        and the adapter supports that, it stays at the source."""
        end = self._adapter.settle
        try:
            try:
                await self._take(self.name, pulled.message)
            except (BadRequest, Conflict) as error:
                end = getattr(self._adapter, "refuse", end)
                logger.warning("adapter %s: a message was refused: %s", self.name, error)
                figures = self._instances.figures_of(self.name)
                figures.note(error.message, self._clock.now())
                await self._tell(self.name, pulled.message, error.message)
        except HubbubError as error:
            if error.retry:
                self._untaken = pulled
            raise
        async with asyncio.timeout(self._timeout):
            await end(pulled.receipt)

    async def stop(self) -> None:
        """Settles pulled messages first: otherwise the next adapter would pull them again."""
        self._stopping = True
        if self._task is not asyncio.current_task():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._timeout):
                    await self._settled.wait()
            self._task.cancel()
            await asyncio.wait([self._task], timeout=self._timeout)
        while not self._requests.empty():
            self._requests.get_nowait().cancel()
        try:
            async with asyncio.timeout(self._timeout):
                await self._adapter.close()
        except Exception as error:  # noqa: BLE001 - code of others
            logger.warning("adapter %s did not close: %s", self.name, error)


class Listening:
    """An input adapter that receives messages by itself."""

    def __init__(self, name: str, instances: Instances, clock: Clock, take: Take) -> None:
        self.name = name
        self._instances = instances
        self._clock = clock
        self._take = take
        self._stopped = False
        self._timeout = instances.inputs[name][1].timeout_seconds
        self._adapter = cast(PushInput, instances.make_input(name))
        self._starting = asyncio.get_running_loop().create_task(self._start())

    async def _start(self) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                await self._adapter.start(self._publish)
        except Exception as error:  # noqa: BLE001 - code of others
            reason = "it took too long" if isinstance(error, TimeoutError) else error
            message = f"does not listen: {reason}"
            self._instances.figures_of(self.name).note(message, self._clock.now())

    async def _publish(self, message: PeerMessage) -> str:
        if self._stopped:
            raise NotFound(f"the adapter {self.name!r} was removed")
        taken = await self._take(self.name, message)
        self._instances.figures_of(self.name).note(None, self._clock.now())
        return taken

    async def stop(self) -> None:
        self._stopped = True
        self._starting.cancel()
        await asyncio.wait([self._starting], timeout=self._timeout)
        try:
            async with asyncio.timeout(10):
                await self._adapter.stop()
        except Exception as error:  # noqa: BLE001 - code of others
            logger.warning("adapter %s did not stop: %s", self.name, error)


class Inputs:
    """All input adapters of one hub at the owner of its log."""

    def __init__(
        self,
        instances: Instances,
        clock: Clock,
        take: Take,
        remove: Remove,
        tell: Tell,
        end_of: EndOf,
    ) -> None:
        self._instances = instances
        self._clock = clock
        self._take = take
        self._remove = remove
        self._tell = tell
        self._end_of = end_of
        self._last_looks: dict[str, asyncio.Future[None]] = {}
        self._running: dict[str, tuple[AdapterSettings, Puller | Listening]] = {}
        self._ending: set[str] = set()
        """Names of adapters that are being stopped. A successor starts after that, since both may
        need the same port or mailbox."""
        self._stopping = TaskSet()
        self._stopped = False

    def configure(self) -> None:
        """Starts and stops adapters to match the configured instances."""
        wanted = self._instances.inputs
        for name, (settings, running) in list(self._running.items()):
            if name not in wanted or wanted[name][0] != settings:
                del self._running[name]
                self._ending.add(name)
                self._stopping.start(self._end(name, running))
        self._begin()

    async def _end(self, name: str, running: Puller | Listening) -> None:
        await running.stop()
        self._ending.discard(name)
        if not self._stopped:
            self._begin()

    def _begin(self) -> None:
        running: Puller | Listening
        for name, (settings, kind) in self._instances.inputs.items():
            if name in self._running or name in self._ending:
                continue
            try:
                if kind.direction == "pull":
                    more = (self._take, self._remove, self._tell, self._end_of, self._look_last)
                    running = Puller(name, settings, self._instances, self._clock, *more)
                else:
                    running = Listening(name, self._instances, self._clock, self._take)
                self._running[name] = (settings, running)
            except Exception as error:  # noqa: BLE001 - code of others
                figures = self._instances.figures_of(name)
                figures.note(f"cannot be made: {error}", self._clock.now())

    def pull(self, name: str) -> asyncio.Future[None]:
        """Pulls the named adapter now. Raises `NotFound`, `Conflict`."""
        _, running = self._running.get(name, (None, None))
        if not isinstance(running, Puller):
            raise NotFound(f"the hub has no adapter {name!r} that is pulled")
        return running.pull()

    def last_look(self, message: PeerMessage) -> asyncio.Future[None] | None:
        """Pulls the adapter created for this message's reply once more, then removes it."""
        for settings, running in self._running.values():
            if settings.awaits == message.id and isinstance(running, Puller):
                return self._look_last(running)
        return None

    def _look_last(self, puller: Puller) -> asyncio.Future[None]:
        """Starts the last look, or returns the one in progress: the message's verdict and the
        adapter both ask for it when the time is over."""
        name = puller.name
        looking = self._last_looks.get(name)
        if looking is None:
            looking = asyncio.ensure_future(self._look_and_remove(puller))
            self._last_looks[name] = looking
            looking.add_done_callback(lambda _: self._last_looks.pop(name, None))
        return looking

    async def _look_and_remove(self, puller: Puller) -> None:
        try:
            await puller.last_look()
            await self._remove(puller.name)
        except (HubbubError, asyncio.CancelledError) as error:
            logger.info("adapter %s: the last pull failed: %s", puller.name, error)

    async def stop(self) -> None:
        self._stopped = True
        for _, running in self._running.values():
            self._stopping.start(running.stop())
        self._running.clear()
        await self._stopping.settle()
