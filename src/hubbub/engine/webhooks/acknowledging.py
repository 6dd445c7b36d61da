"""Acknowledges delivered messages: shortly after the deliveries, in batches."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from hubbub.domain.errors import HubbubError, NotSubscribed, TopicNotFound
from hubbub.domain.topics import Acknowledge
from hubbub.engine.webhooks.driven import DrivenWebhook
from hubbub.ports.bus import Ask
from hubbub.tasks import TaskSet

logger = logging.getLogger(__name__)

_SOON_SECONDS = 0.05
_AGAIN_SECONDS = 1.0


class Acknowledger:
    def __init__(self, ask: Ask, lost: Callable[[DrivenWebhook, HubbubError], None]) -> None:
        """`lost` is called for a webhook whose cursor does not exist."""
        self._ask = ask
        self._lost = lost
        self._waiting: dict[DrivenWebhook, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._tasks = TaskSet()
        self._closed = False

    def soon(self, driven: DrivenWebhook) -> None:
        self._waiting[driven] = None
        if self._timer is None and not self._closed:
            self._timer = asyncio.get_running_loop().call_later(_SOON_SECONDS, self._flush)

    def _flush(self) -> None:
        self._timer = None
        driven_webhooks, self._waiting = self._waiting, {}
        for driven in driven_webhooks:
            self._tasks.start(self.now(driven))

    async def now(self, driven: DrivenWebhook) -> None:
        serial = driven.position
        if serial <= driven.acknowledged:
            return
        try:
            await self._ask(Acknowledge(driven.key, up_to=serial))
        except (NotSubscribed, TopicNotFound) as error:
            self._lost(driven, error)
        except HubbubError as error:
            logger.warning("webhook %s is not acknowledged yet: %s", driven.key.name, error)
            if not driven.gone:
                asyncio.get_running_loop().call_later(_AGAIN_SECONDS, self.soon, driven)
        else:
            driven.acknowledged = max(driven.acknowledged, serial)

    async def drop(self, hub: str) -> None:
        """When this returns, no acknowledgement for webhooks of this hub is pending."""
        self._waiting = {driven: None for driven in self._waiting if driven.key.hub != hub}
        await self._tasks.settle_so_far()

    async def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        await self._tasks.settle()
