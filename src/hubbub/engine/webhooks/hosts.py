"""Hosts of webhooks: how many requests may be under way to each, and whether to try it at all.

A host that fails several times in a row is left alone for a while; then one request goes through to
see whether it is back. So a dead host costs the others neither time nor room.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Literal
from weakref import WeakValueDictionary

from hubbub.domain.callbacks import LONGEST_URL, Reach, check_callback
from hubbub.domain.webhooks import retry_delay
from hubbub.engine.webhooks.limits import WebhookLimits
from hubbub.ports.outgoing import Answer, HttpSender, Outgoing, SendFailed

Breaker = Literal["closed", "open", "probing"]


class Host:
    """State only; `Hosts` drives it."""

    __slots__ = (
        "__weakref__",
        "failures",
        "in_flight",
        "name",
        "open_until",
        "opened",
        "probing",
        "waiting",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.in_flight = 0
        self.waiting: deque[asyncio.Future[None]] = deque()
        self.failures = 0
        """In a row."""
        self.opened = 0
        """How often in a row the breaker opened; 0: it is closed."""
        self.open_until = 0.0
        self.probing = False

    @property
    def breaker(self) -> Breaker:
        if not self.opened:
            return "closed"
        return "probing" if self.probing else "open"


class Hosts:
    """All hosts that webhooks of this node go to."""

    def __init__(self, limits: WebhookLimits) -> None:
        self._limits = limits
        self._hosts: WeakValueDictionary[str, Host] = WeakValueDictionary()
        """Those that a webhook goes to."""
        self._in_flight = 0
        self._crowded: dict[Host, None] = {}
        """Those that wait because there are too many requests in all."""

    def get(self, name: str) -> Host:
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = Host(name)
        return host

    @property
    def in_flight(self) -> int:
        return self._in_flight

    def open_breakers(self) -> int:
        return sum(1 for host in self._hosts.values() if host.opened)

    async def enter(self, host: Host, seconds: float) -> bool:
        """Wait until a request may go out, then call `leave` after it. False: it took too long."""
        if not host.waiting and self._may_pass(host):
            self._admit(host)
            return True
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        host.waiting.append(waiter)
        if self._in_flight >= self._limits.in_flight:
            self._crowded[host] = None
        try:
            async with asyncio.timeout(seconds):
                await waiter
        except BaseException as error:
            if waiter.done() and not waiter.cancelled():
                self.leave(host, None)
            elif waiter in host.waiting:
                host.waiting.remove(waiter)
            if isinstance(error, TimeoutError):
                return False
            raise
        return True

    def leave(self, host: Host, well: bool | None) -> None:
        """`well`: whether the host is; None: nobody knows."""
        host.in_flight -= 1
        self._in_flight -= 1
        if well:
            host.failures = host.opened = 0
        elif well is False:
            host.failures += 1
            if host.probing or host.failures == self._limits.breaker_failures:
                self._open(host)
        host.probing = False
        self._pump(host)
        while self._crowded and self._in_flight < self._limits.in_flight:
            other = next(iter(self._crowded))
            del self._crowded[other]
            self._pump(other)

    async def send(self, sender: HttpSender, request: Outgoing, reach: Reach) -> Answer:
        """One request, when its host may have one, within the request's own time. Raises
        `SendFailed`."""
        parts = check_callback(request.url, LONGEST_URL)
        host = self.get(f"{parts.host}:{parts.port}")
        if not await self.enter(host, request.timeout_seconds):
            raise SendFailed("timeout", f"{host.name} has too much to do")
        well: bool | None = None
        try:
            answer = await sender.send(request, reach)
            well = answer.status < 500
        except SendFailed:
            well = False
            raise
        finally:
            self.leave(host, well)
        return answer

    def _may_pass(self, host: Host) -> bool:
        if self._in_flight >= self._limits.in_flight:
            return False
        if host.opened:
            now = asyncio.get_running_loop().time()
            return not host.probing and not host.in_flight and now >= host.open_until
        return host.in_flight < self._limits.per_host

    def _admit(self, host: Host) -> None:
        host.in_flight += 1
        self._in_flight += 1
        host.probing = bool(host.opened)

    def _pump(self, host: Host) -> None:
        """Let those through who may go."""
        while host.waiting and self._may_pass(host):
            waiter = host.waiting.popleft()
            if not waiter.done():
                self._admit(host)
                waiter.set_result(None)
        if host.waiting and self._in_flight >= self._limits.in_flight:
            self._crowded[host] = None

    def _open(self, host: Host) -> None:
        host.opened += 1
        limits = self._limits
        seconds = retry_delay(
            host.opened, 0.0, limits.first_retry_seconds, limits.longest_retry_seconds
        )
        loop = asyncio.get_running_loop()
        host.open_until = loop.time() + seconds
        loop.call_at(host.open_until + 0.001, self._pump, host)
