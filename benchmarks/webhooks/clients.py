"""The hub's own HTTP client beside aiohttp's: what one request costs in CPU time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from itertools import count

import aiohttp
import uvloop

from benchmarks.servers import free_port
from benchmarks.webhooks.hosts import addresses
from benchmarks.webhooks.measures import BODY
from benchmarks.webhooks.receiver import receivers
from hubbub.connectors.http_out import HttpOut
from hubbub.ports.outgoing import HttpRequest

_AT_ONCE = 50
_HEADERS = {"Content-Type": "text/plain", "User-Agent": "Hubbub", "Hubbub-Message-Id": "0" * 20}

Send = Callable[[], Awaitable[object]]


def client_costs(requests: int) -> tuple[float, float]:
    """Microseconds of CPU for each request: our own client, and aiohttp's."""
    with receivers(addresses(1), free_port()) as receiver:
        url = f"http://{receiver.addresses[0]}:{receiver.port}/"
        return uvloop.run(_own(url, requests)), uvloop.run(_aiohttp(url, requests))


async def _own(url: str, requests: int) -> float:
    client = HttpOut()
    outgoing = HttpRequest("bench", "POST", url, tuple(_HEADERS.items()), BODY)
    try:
        return await _cost(lambda: client.send(outgoing, "loopback"), requests)
    finally:
        await client.close()


async def _aiohttp(url: str, requests: int) -> float:
    async with aiohttp.ClientSession() as session:

        async def send() -> object:
            async with session.post(
                url, data=BODY, headers=_HEADERS, allow_redirects=False
            ) as answer:
                return await answer.read()

        return await _cost(send, requests)


async def _cost(send: Send, requests: int) -> float:
    await _send_many(send, requests // 10)
    before = time.process_time()
    await _send_many(send, requests)
    return (time.process_time() - before) / requests * 1e6


async def _send_many(send: Send, requests: int) -> None:
    numbers = count()

    async def work() -> None:
        while next(numbers) < requests:
            await send()

    await asyncio.gather(*(work() for _ in range(_AT_ONCE)))
