"""Steps on their way to the store: collected while one is being written, in order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from hubbub.domain.communication.steps import CommunicationStep
from hubbub.domain.errors import HubbubError, StaleOwner
from hubbub.domain.messages import Message
from hubbub.domain.names import COMMUNICATION_LOG, partition_of
from hubbub.ports.bus import PublishOutcome, PublishReply
from hubbub.ports.storage.communication import CommunicationStore

logger = logging.getLogger(__name__)

AGAIN_SECONDS = 1.0
_AT_ONCE = 2000
"""Steps in one transaction: other hubs' writes wait for it."""
Publish = Callable[[Message, PublishReply], None]


def _nothing(serial: int) -> None:
    """Nothing follows from the append."""


class Committer:
    """Of one hub at the owner of its log. A step with a message goes with the message's append; one
    without goes by itself, many at a time."""

    def __init__(
        self,
        hub: str,
        store: CommunicationStore,
        publish: Publish,
        terms: Mapping[int, int],
    ) -> None:
        """`publish` hands a message to the channel's owner, on this node."""
        self._hub = hub
        self._store = store
        self._publish = publish
        self._terms = terms
        self._partition = partition_of(hub, COMMUNICATION_LOG)
        self._steps: list[tuple[CommunicationStep, asyncio.Future[bool] | None]] = []
        self._task: asyncio.Task[None] | None = None
        self._stopped = False

    async def append(self, message: Message, then: Callable[[int], None] = _nothing) -> int:
        """With the step that it carries; answers its serial. `then` is called with the serial when
        the message is on disk, also where the caller was cancelled meanwhile. Raises
        `HubbubError`."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[PublishOutcome] = loop.create_future()

        def conclude(outcome: PublishOutcome) -> None:
            if outcome.error is None:
                loop.call_soon(then, outcome.serial)
            if not done.done():
                done.set_result(outcome)

        self._publish(message, conclude)
        outcome = await done
        if outcome.error is not None:
            raise outcome.error
        return outcome.serial

    async def append_at_last(self, message: Message, then: Callable[[int], None] = _nothing) -> int:
        """As often as it takes. Raises `StaleOwner` where another node has the log by now."""
        while True:
            try:
                return await self.append(message, then)
            except StaleOwner:
                raise
            except HubbubError as error:
                logger.warning("hub %s: a verdict waits: %s", self._hub, error.message)
            if self._stopped:
                raise StaleOwner("the node stops")
            await asyncio.sleep(AGAIN_SECONDS)

    def commit(self, step: CommunicationStep) -> None:
        """Soon, and before any later step; an append may overtake it."""
        self._add(step, None)

    async def commit_first(self, step: CommunicationStep) -> bool:
        """As `commit`, but returns when the step is on disk, so that later appends come after it.
        False: another node has the log by now."""
        saved: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._add(step, saved)
        return await saved

    def _add(self, step: CommunicationStep, saved: asyncio.Future[bool] | None) -> None:
        self._steps.append((step, saved))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        await asyncio.sleep(0)  # what else comes in this turn of the loop goes along
        try:
            while self._steps:
                steps, self._steps = self._steps[:_AT_ONCE], self._steps[_AT_ONCE:]
                owned = await self._save(_merged([step for step, _ in steps]))
                if not owned:
                    steps, self._steps = steps + self._steps, []
                for _, saved in steps:
                    if saved is not None and not saved.done():
                        saved.set_result(owned)
        finally:
            self._task = None

    async def _save(self, step: CommunicationStep) -> bool:
        """False: another node has the log by now, and does what is left to do."""
        while True:
            term = self._terms.get(self._partition, 0)
            try:
                await self._store.save_step(self._hub, step, self._partition, term)
                return True
            except StaleOwner:
                return False
            except HubbubError as error:
                logger.warning("hub %s: outcomes wait for the store: %s", self._hub, error.message)
            if self._stopped:
                return False
            await asyncio.sleep(AGAIN_SECONDS)

    async def settle(self) -> None:
        """Have everything on disk that was committed, unless the store is away."""
        self._stopped = True
        while self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)


def _merged(steps: list[CommunicationStep]) -> CommunicationStep:
    if len(steps) == 1:
        return steps[0]
    return CommunicationStep(
        added=tuple(row for step in steps for row in step.added),
        moved=tuple(move for step in steps for move in step.moved),
        dropped=tuple(key for step in steps for key in step.dropped),
        planned=tuple(plan for step in steps for plan in step.planned),
        closed=tuple(closed for step in steps for closed in step.closed),
        dropped_of=tuple(gone for step in steps for gone in step.dropped_of),
        released=tuple(free for step in steps for free in step.released),
    )
