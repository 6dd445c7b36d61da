"""Resolves and checks names of tenants' servers, once for all concurrent requests of a hub.

A lookup blocks a thread until the system gives up. Threads are shared fairly: names whose servers
never respond delay only lookups of the same hub.
"""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from ipaddress import ip_address

from hubbub.domain.callbacks import Reach, may_reach
from hubbub.fair_slots import FairSlots
from hubbub.ports.outgoing import SendFailed

_KNOWN_SECONDS = 30.0
_UNKNOWN_SECONDS = 5.0
_MOST_NAMES = 4096
_THREADS = 32


class Resolver:
    """Caches checked addresses for a moment. Connections go to these addresses, so that changing
    the DNS record meanwhile has no effect."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="resolving")
        self._slots = FairSlots(_THREADS)
        self._known: dict[str, tuple[float, tuple[str, ...]]] = {}
        self._asked: dict[tuple[str, str], asyncio.Task[tuple[str, ...]]] = {}

    async def resolve(self, hub: str, host: str, reach: Reach) -> tuple[str, ...]:
        """The addresses of a host, in the order of attempts. Raises `SendFailed` if there are none,
        or if one of them is forbidden."""
        addresses = await self._addresses(hub, host)
        if not addresses:
            raise SendFailed("resolve", f"the name {host!r} has no address")
        for address in addresses:
            if not may_reach(address, reach):
                raise SendFailed(
                    "refused_address", f"{host!r} is at {address}, where this hub sends nothing"
                )
        return addresses

    async def _addresses(self, hub: str, host: str) -> tuple[str, ...]:
        try:
            return (str(ip_address(host)),)
        except ValueError:
            pass
        loop = asyncio.get_running_loop()
        known = self._known.get(host)
        if known is not None and known[0] > loop.time():
            return known[1]
        task = self._asked.get((hub, host))
        if task is None:
            task = self._asked[hub, host] = loop.create_task(self._ask(loop, hub, host))
            task.add_done_callback(lambda _: self._asked.pop((hub, host), None))
        return await asyncio.shield(task)  # others may wait for it, too

    async def _ask(self, loop: asyncio.AbstractEventLoop, hub: str, host: str) -> tuple[str, ...]:
        await self._slots.take(hub)
        try:
            found = await loop.run_in_executor(
                self._pool, partial(socket.getaddrinfo, host, None, type=socket.SOCK_STREAM)
            )
            addresses = tuple(dict.fromkeys(str(info[4][0]) for info in found))
        except (OSError, UnicodeError):
            addresses = ()
        finally:
            self._slots.give_back(hub)
        if len(self._known) >= _MOST_NAMES:
            self._known.clear()
        seconds = _KNOWN_SECONDS if addresses else _UNKNOWN_SECONDS
        self._known[host] = (loop.time() + seconds, addresses)
        return addresses

    async def close(self) -> None:
        for task in list(self._asked.values()):
            task.cancel()
        await asyncio.gather(*self._asked.values(), return_exceptions=True)
        self._pool.shutdown(wait=False, cancel_futures=True)
