"""Input adapters of a hub: those that listen, and those that are asked for messages."""

from __future__ import annotations

import asyncio
import contextlib
import logging
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
"""Pulls on request that wait for one adapter."""
_AT_ONCE = 1000
"""Messages that one look takes before it gives way to the schedule."""
Take = Callable[[str, PeerMessage], Awaitable[str]]
"""Takes a message in that came by the adapter of this name; answers its id."""
Tell = Callable[[str, PeerMessage, str], Awaitable[None]]
"""Tells whoever cares that a message of the adapter of this name was refused, and why."""
Remove = Callable[[str], Awaitable[None]]
"""Removes the adapter of this name from the settings of the hub."""


class Puller:
    """One adapter that is pulled: one pull at a time, first at once, then in each interval, and on
    request."""

    def __init__(
        self,
        name: str,
        settings: AdapterSettings,
        instances: Instances,
        clock: Clock,
        take: Take,
        remove: Remove,
        tell: Tell,
    ) -> None:
        self.name = name
        self.settings = settings
        self._instances = instances
        self._clock = clock
        self._take = take
        self._remove = remove
        self._tell = tell
        self._timeout = instances.inputs[name][1].timeout_seconds
        self._adapter = cast(PullInput, instances.make_input(name))
        self._requests: asyncio.Queue[asyncio.Future[None]] = asyncio.Queue(_MOST_REQUESTS)
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._over = False
        self._stopping = False
        self._settled = asyncio.Event()
        """No message is between its pull and the end of `settle`."""
        self._settled.set()

    def pull(self) -> asyncio.Future[None]:
        """Done when the adapter was asked. Raises `Conflict` where too many wait already."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            self._requests.put_nowait(done)
        except asyncio.QueueFull:
            raise Conflict(
                f"{_MOST_REQUESTS} pulls of the adapter {self.name!r} wait already; try later"
            ) from None
        return done

    async def _run(self) -> None:
        interval = self.settings.interval_ms
        if interval is not None:
            await self._look()
        while not self._over:
            request: asyncio.Future[None] | None = None
            try:
                async with asyncio.timeout(None if interval is None else interval / 1000):
                    request = await self._requests.get()
            except TimeoutError:
                pass
            try:
                await self._look()
            finally:
                if request is not None and not request.done():
                    request.set_result(None)
        await self._remove_at_last()

    async def _remove_at_last(self) -> None:
        """As often as it takes: after a restart the adapter would be pulled again."""
        while True:
            try:
                await self._remove(self.name)
                return
            except HubbubError as error:
                figures = self._instances.figures_of(self.name)
                figures.note(f"cannot be removed yet: {error.message}", self._clock.now())
            await asyncio.sleep(AGAIN_SECONDS)

    async def _look(self) -> None:
        """Take what is there. After an error the schedule goes on."""
        figures = self._instances.figures_of(self.name)
        try:
            for _ in range(_AT_ONCE):
                if self._stopping or not await self._pull_one():
                    return
                figures.note(None, self._clock.now())
                if self.settings.delete_if_successful:
                    self._over = True
                    return
        except TimeoutError:
            figures.note("the adapter took too long", self._clock.now())
        except HubbubError as error:
            figures.note(error.message, self._clock.now())
        except (Exception, asyncio.CancelledError, SystemExit) as error:  # code of others
            if is_cancelled():
                raise
            figures.note(str(error) or repr(error), self._clock.now())

    async def _pull_one(self) -> bool:
        async with asyncio.timeout(self._timeout):
            pulled = await self._adapter.pull()
        if pulled is None:
            return False
        if not isinstance(pulled, Pulled):
            raise AdapterFailed(f"the adapter gave {type(pulled).__name__!r} in place of a message")
        self._settled.clear()
        try:
            await self._take_and_settle(pulled)
        finally:
            self._settled.set()
        return True

    async def _take_and_settle(self, pulled: Pulled) -> None:
        try:
            await self._take(self.name, pulled.message)
        except (BadRequest, Conflict) as error:
            logger.info("adapter %s: a message was refused: %s", self.name, error.message)
            figures = self._instances.figures_of(self.name)
            figures.note(error.message, self._clock.now())
            await self._tell(self.name, pulled.message, error.message)
        async with asyncio.timeout(self._timeout):
            await self._adapter.settle(pulled.receipt)

    async def stop(self) -> None:
        """What was pulled is settled first: the source would give it to the next adapter again."""
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
    """One adapter that listens by itself."""

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
        self, instances: Instances, clock: Clock, take: Take, remove: Remove, tell: Tell
    ) -> None:
        self._instances = instances
        self._clock = clock
        self._take = take
        self._remove = remove
        self._tell = tell
        self._running: dict[str, tuple[AdapterSettings, Puller | Listening]] = {}
        self._ending: set[str] = set()
        """Names whose adapter is being stopped: another one begins when it has ended, since the two
        may need the same port or mailbox."""
        self._stopping = TaskSet()
        self._stopped = False

    def configure(self) -> None:
        """Start and stop those that the instances say."""
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
                    more = (self._take, self._remove, self._tell)
                    running = Puller(name, settings, self._instances, self._clock, *more)
                else:
                    running = Listening(name, self._instances, self._clock, self._take)
                self._running[name] = (settings, running)
            except Exception as error:  # noqa: BLE001 - code of others
                figures = self._instances.figures_of(name)
                figures.note(f"cannot be made: {error}", self._clock.now())

    def pull(self, name: str) -> asyncio.Future[None]:
        """Raises `NotFound`, `Conflict`."""
        _, running = self._running.get(name, (None, None))
        if not isinstance(running, Puller):
            raise NotFound(f"the hub has no adapter {name!r} that is pulled")
        return running.pull()

    def last_look(self, message: PeerMessage) -> asyncio.Future[None] | None:
        """Pull the adapter that is there for this message's answer once more, and remove it."""
        for name, (settings, running) in self._running.items():
            if settings.awaits == message.id and isinstance(running, Puller):
                return asyncio.ensure_future(self._look_and_remove(name, running))
        return None

    async def _look_and_remove(self, name: str, puller: Puller) -> None:
        try:
            await puller.pull()
            await self._remove(name)
        except (HubbubError, asyncio.CancelledError) as error:
            logger.info("adapter %s: no last look: %s", name, error)

    async def stop(self) -> None:
        self._stopped = True
        for _, running in self._running.values():
            self._stopping.start(running.stop())
        self._running.clear()
        await self._stopping.settle()
