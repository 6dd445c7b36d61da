"""Acknowledgements of what arrived: a moment later, many at a time, behind the deliveries."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from hubbub.domain.errors import HubbubError, NotSubscribed, TopicNotFound
from hubbub.domain.topics import Acknowledge
from hubbub.engine.webhooks.push import Push
from hubbub.ports.bus import Topic
from hubbub.tasks import TaskSet

logger = logging.getLogger(__name__)

_SOON_SECONDS = 0.05
_AGAIN_SECONDS = 1.0


class Acknowledger:
    def __init__(self, topic: Topic, lost: Callable[[Push, HubbubError], None]) -> None:
        """`lost` hears of webhooks whose place is not there."""
        self._topic = topic
        self._lost = lost
        self._waiting: dict[Push, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._tasks = TaskSet()
        self._closed = False

    def soon(self, push: Push) -> None:
        self._waiting[push] = None
        if self._timer is None and not self._closed:
            self._timer = asyncio.get_running_loop().call_later(_SOON_SECONDS, self._flush)

    def _flush(self) -> None:
        self._timer = None
        pushes, self._waiting = self._waiting, {}
        for push in pushes:
            self._tasks.start(self.now(push))

    async def now(self, push: Push) -> None:
        serial = push.position
        if serial <= push.acknowledged:
            return
        try:
            await self._topic(Acknowledge(push.key, up_to=serial))
        except (NotSubscribed, TopicNotFound) as error:
            self._lost(push, error)
        except HubbubError as error:
            logger.warning("webhook %s is not acknowledged yet: %s", push.key.name, error.message)
            if not push.gone:
                asyncio.get_running_loop().call_later(_AGAIN_SECONDS, self.soon, push)
        else:
            push.acknowledged = max(push.acknowledged, serial)

    async def drop(self, hub: str) -> None:
        """Of webhooks of this hub nothing is acknowledged any more when this returns."""
        self._waiting = {push: None for push in self._waiting if push.key.hub != hub}
        await self._tasks.settle_so_far()

    async def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        await self._tasks.settle()
