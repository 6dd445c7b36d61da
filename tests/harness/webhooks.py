"""The engine with a driver of webhooks, for tests that send to receivers on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from harness.engine import Alone, EngineNode
from harness.receivers import ANSWER_SECONDS
from harness.running_hub import OPEN, open_hub
from hubbub.domain.permissions import ANONYMOUS
from hubbub.domain.rules import HubConfiguration
from hubbub.domain.webhooks import WantedWebhook, Webhook
from hubbub.engine.outward.limits import WebhookLimits
from hubbub.engine.webhooks.service import Webhooks

STORED = msgspec.structs.replace(OPEN, store=True, store_by_default=True)
FAST = WebhookLimits(
    timeout_seconds=0.5,
    first_retry_seconds=0.01,
    longest_retry_seconds=0.05,
    retries=3,
    refused_retries=1,
    breaker_failures=3,
    stop_seconds=1.0,
)


def hub_of(**settings: Any) -> HubConfiguration:
    return open_hub("acme", STORED, **{"callback_addresses": "loopback", **settings})


@asynccontextmanager
async def engine(
    path: Path, limits: WebhookLimits = FAST, **settings: Any
) -> AsyncIterator[EngineNode]:
    async with Alone(path, hubs=[hub_of(**settings)], webhooks=limits) as alone:
        yield alone.node


async def subscribe(node: EngineNode, callback: str, channel: str = "news", **more: Any) -> Webhook:
    request = WantedWebhook("plain", channel, callback, **more)
    return await node.node.feature(Webhooks).subscribe(node.node.hub("acme"), ANONYMOUS, request)


async def put(node: EngineNode, *bodies: bytes, channel: str = "news") -> None:
    hub = node.node.hub("acme")
    for body in bodies:
        await node.node.feature(Webhooks).publish(
            hub, ANONYMOUS, channel, body, "text/plain", technology="websub"
        )


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last + 1)]


async def until(condition: Callable[[], object]) -> None:
    """For what nobody announces."""
    async with asyncio.timeout(ANSWER_SECONDS):
        while not condition():
            await asyncio.sleep(0.005)


async def describe(node: EngineNode, webhook: Webhook) -> Any:
    return await node.node.feature(Webhooks).describe(node.node.hub("acme"), webhook.id)


async def acknowledged(node: EngineNode, webhook: Webhook, floor: int) -> None:
    """Wait until the place on disk is there."""
    async with asyncio.timeout(ANSWER_SECONDS):
        while True:
            cursors = await node.driver.context.store.read_cursors(
                "acme", webhook.channel, "webhook"
            )
            if any(c.name == webhook.id and c.floor >= floor for c in cursors):
                return
            await asyncio.sleep(0.01)
