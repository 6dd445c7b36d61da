"""Commits steps to the store: steps gather while an earlier batch is written, and keep their
order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from hubbub.domain.communication.requests import LogMessage
from hubbub.domain.communication.steps import CommunicationStep
from hubbub.domain.errors import HubbubError, StaleOwner
from hubbub.domain.names import COMMUNICATION_LOG, partition_of
from hubbub.ports.bus import PublishOutcome, PublishReply
from hubbub.ports.storage.communication import CommunicationStore

logger = logging.getLogger(__name__)

AGAIN_SECONDS = 1.0
_AT_ONCE = 2000
"""Maximum number of steps in one transaction: other hubs' writes wait for it."""
Publish = Callable[[LogMessage, PublishReply], None]


def _nothing(serial: int) -> None:
    """Default callback: does nothing."""


class Committer:
    """Commits the steps of one hub at the owner of its log. A step with a message is stored with
    the message's append; steps without one are batched."""

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

    async def append(self, message: LogMessage, then: Callable[[int], None] = _nothing) -> int:
        """Appends the message with its step and returns its serial. `then` is called with the
        serial once the message is on disk, even if the caller was cancelled. Raises
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

    async def append_until_stored(
        self, message: LogMessage, then: Callable[[int], None] = _nothing
    ) -> int:
        """Like `append`, but retries until the store accepts the message. Raises `StaleOwner` if
        another node now owns the log."""
        while True:
            try:
                return await self.append(message, then)
            except StaleOwner:
                raise
            except HubbubError as error:
                logger.warning("hub %s: a verdict waits: %s", self._hub, error)
            if self._stopped:
                raise StaleOwner("the node stops")
            await asyncio.sleep(AGAIN_SECONDS)

    def commit(self, step: CommunicationStep) -> None:
        """Schedules the step; it is stored before any later step, but an append may overtake it."""
        self._add(step, None)

    async def commit_and_wait(self, step: CommunicationStep) -> bool:
        """Like `commit`, but returns when the step is on disk, so that later appends come after it.
        Returns False if another node now owns the log."""
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
        """Returns False if another node now owns the log; that node repeats the unfinished work."""
        while True:
            term = self._terms.get(self._partition, 0)
            try:
                await self._store.save_step(self._hub, step, self._partition, term)
                return True
            except StaleOwner:
                return False
            except HubbubError as error:
                logger.warning("hub %s: outcomes wait for the store: %s", self._hub, error)
            if self._stopped:
                return False
            await asyncio.sleep(AGAIN_SECONDS)

    async def settle(self) -> None:
        """Waits until all committed steps are on disk, unless the store is unavailable."""
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
        audits=tuple(entry for step in steps for entry in step.audits),
    )
