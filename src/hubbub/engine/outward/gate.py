"""Limits requests of a node to servers that tenants named: webhooks, verifications, fetches, calls
of services, auth providers and keys of issuers.

All of them go through `OutgoingGate`. The number of requests in progress is bounded, and each hub
gets a fair share. Counts, queues and circuit breakers are kept per hub and destination, so that one
hub's failing or hanging requests do not affect another hub, even at the same address."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal
from weakref import WeakValueDictionary

import msgspec

from hubbub.domain.callbacks import LONGEST_URL, Reach, check_callback, literal_address, may_reach
from hubbub.domain.errors import NotPermitted, Overloaded
from hubbub.domain.webhooks import retry_delay
from hubbub.engine.outward.limits import WebhookLimits
from hubbub.fair_slots import FairSlots
from hubbub.ports.outgoing import HttpRequest, HttpResponse, HttpSender, Purpose, SendFailed

Breaker = Literal["closed", "open", "probing"]

_PATIENT = ("webhook", "fetch", "push", "delivery")
"""Purposes without a waiting caller: their requests wait until the destination recovers, and each
webhook and topic has few of them. All other purposes have waiting callers: their queue is bounded,
and they fail at once while the breaker is open."""
_PROMPT_PER_DESTINATION = 100
_PROMPT_WAITING = 1000
"""Maximum number of queued requests per hub, over all destinations."""
_PROMPT_OPEN_SECONDS = 5.0
_ABSENT = ("connect", "resolve", "tls")
"""Failures that show that a destination is down; a slow one may be slow for one method only."""
_MOST_FAILING = 10_000


@dataclass(slots=True, eq=False, weakref_slot=True)
class Destination:
    """The target of one hub's requests for one purpose. State only; `OutgoingGate` drives it."""

    hub: str
    name: str
    patient: bool
    """No caller waits for its requests."""
    most: int
    """Maximum number of requests in progress."""
    in_flight: int = 0
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)
    failures: int = 0
    """Consecutive failures."""
    opened: int = 0
    """How many times in a row the breaker opened; 0: it is closed."""
    open_until: float = 0.0
    probing: bool = False

    @property
    def breaker(self) -> Breaker:
        if not self.opened:
            return "closed"
        return "probing" if self.probing else "open"


class OutgoingGate:
    """Implements `ports.outgoing.Outgoing`, for one node."""

    def __init__(self, sender: HttpSender, limits: WebhookLimits) -> None:
        self._sender = sender
        self._limits = limits
        self._slots = FairSlots(limits.in_flight)
        self._destinations: WeakValueDictionary[tuple[str, Purpose, str], Destination] = (
            WeakValueDictionary()
        )
        """Destinations of webhooks, and others that have requests or fail."""
        self._failing: dict[Destination, None] = {}
        """Keeps the state of breakers; the oldest are dropped first."""
        self._waiting: Counter[str] = Counter()
        """The number of queued requests with a waiting caller, by hub."""

    @property
    def in_flight(self) -> int:
        return self._slots.taken

    def open_breakers(self) -> int:
        return sum(1 for each in self._destinations.values() if each.opened)

    def destination(
        self, hub: str, purpose: Purpose, name: str, most: int | None = None
    ) -> Destination:
        """`name` identifies the destination: host and port, for example. `most` limits its requests
        in progress; the default depends on the purpose."""
        key = (hub, purpose, name)
        found = self._destinations.get(key)
        if found is None:
            patient = purpose in _PATIENT
            usual = self._limits.per_host if patient else _PROMPT_PER_DESTINATION
            found = self._destinations[key] = Destination(hub, name, patient, most or usual)
        found.most = most or found.most
        return found

    # -- requests -------------------------------------------------------------------------------

    async def send(self, purpose: Purpose, request: HttpRequest, reach: Reach) -> HttpResponse:
        """Sends a request after the gate admits its destination; the request's timeout covers both.
        Raises `SendFailed`, and `BadRequest` for an invalid URL."""
        parts = check_callback(request.url, LONGEST_URL)
        name = f"{parts.host}:{parts.port}"
        destination = self.destination(request.hub, purpose, name)
        left = await self._pass(destination, request.timeout_seconds)
        if left < request.timeout_seconds:
            request = msgspec.structs.replace(request, timeout_seconds=left)
        well: bool | None = None
        try:
            answer = await self.transmit(request, reach)
            well = not destination.patient or answer.status < 500
        except SendFailed as error:
            well = False if destination.patient or error.word in _ABSENT else None
            raise
        finally:
            self.leave(destination, well)
        return answer

    async def transmit(self, request: HttpRequest, reach: Reach) -> HttpResponse:
        """Sends a request; call it between `enter` and `leave`. Raises `SendFailed` and
        `BadRequest`."""
        return await self._sender.send(request, reach)

    @asynccontextmanager
    async def slot(
        self, hub: str, purpose: Purpose, name: str, seconds: float
    ) -> AsyncIterator[float]:
        """Admits a request that does not use HTTP; yields the remaining seconds. Raises
        `Overloaded`."""
        destination = self.destination(hub, purpose, name)
        try:
            left = await self._pass(destination, seconds)
        except SendFailed as error:
            raise Overloaded(error.message) from None
        try:
            yield left
        finally:
            self.leave(destination, None)

    async def check_address(self, hub: str, url: str, reach: Reach, what: str) -> None:
        """Raises `BadRequest`, and `NotPermitted` if the URL resolves to a forbidden address. The
        address is checked again at each connection."""
        parts = check_callback(url, LONGEST_URL)
        address = literal_address(parts.host)
        refused = address is not None and not may_reach(address, reach)
        if not refused:
            try:
                await self._sender.check(hub, url, reach)
            except SendFailed:
                refused = True
        if refused:
            raise NotPermitted(
                f"the {what} {url[:200]!r} is at no address that hub {hub!r} sends to; its "
                f"addresses are {reach!r}, and only an operator can allow others "
                "(callbackAddresses of the hub, or addresses of a route or provider)"
            )

    async def _pass(self, destination: Destination, seconds: float) -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        if not destination.patient and self.is_left_alone(destination):
            raise SendFailed(
                "connect", f"{destination.name} failed {destination.failures} times in a row"
            )
        if not await self.enter(destination, seconds):
            raise SendFailed("busy", f"hub {destination.hub!r} has too many requests under way")
        return max(0.0, seconds - (loop.time() - began))

    # -- admission ------------------------------------------------------------------------------

    async def enter(self, destination: Destination, seconds: float) -> bool:
        """Waits until a request may be sent; call `leave` after the request. Returns False if that
        took too long, or if too many requests of the hub wait."""
        hub = destination.hub
        may_pass = not destination.waiting and self._may_pass(destination)
        if may_pass and self._slots.try_take(hub):
            self._admit(destination)
            return True
        if not destination.patient:
            if self._waiting[hub] >= _PROMPT_WAITING:
                return False
            self._waiting[hub] += 1
        try:
            async with asyncio.timeout(seconds):
                await self._wait(destination)
        except TimeoutError:
            return False
        finally:
            if not destination.patient:
                self._waiting[hub] -= 1
                if not self._waiting[hub]:
                    del self._waiting[hub]
        return True

    async def _wait(self, destination: Destination) -> None:
        """Waits for the destination, then for one of the node's slots."""
        if destination.waiting or not self._may_pass(destination):
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            destination.waiting.append(waiter)
            try:
                await waiter
            except BaseException:
                if waiter.done() and not waiter.cancelled():
                    self._release(destination)
                elif waiter in destination.waiting:
                    destination.waiting.remove(waiter)
                raise
        else:
            self._admit(destination)
        try:
            await self._slots.take(destination.hub)
        except BaseException:
            self._release(destination)
            raise

    def leave(self, destination: Destination, well: bool | None) -> None:
        """`well`: whether the destination is healthy; None: unknown."""
        if well:
            destination.failures = destination.opened = 0
            self._failing.pop(destination, None)
        elif well is False:
            destination.failures += 1
            self._keep(destination)
            if destination.probing or destination.failures == self._limits.breaker_failures:
                self._open(destination)
        self._slots.give_back(destination.hub)
        self._release(destination)

    def _release(self, destination: Destination) -> None:
        destination.in_flight -= 1
        destination.probing = False
        self._pump(destination)

    def _may_pass(self, destination: Destination) -> bool:
        if destination.opened:
            return not destination.in_flight and not self.is_left_alone(destination)
        return destination.in_flight < destination.most

    def is_left_alone(self, destination: Destination) -> bool:
        """Whether the breaker is open, and no trial request is due."""
        now = asyncio.get_running_loop().time()
        return bool(destination.opened) and (destination.probing or now < destination.open_until)

    def _admit(self, destination: Destination) -> None:
        destination.in_flight += 1
        destination.probing = bool(destination.opened)

    def _pump(self, destination: Destination) -> None:
        """Admits waiting requests."""
        while destination.waiting and self._may_pass(destination):
            waiter = destination.waiting.popleft()
            if not waiter.done():
                self._admit(destination)
                waiter.set_result(None)

    def _open(self, destination: Destination) -> None:
        destination.opened += 1
        limits = self._limits
        longest = limits.longest_retry_seconds if destination.patient else _PROMPT_OPEN_SECONDS
        seconds = retry_delay(destination.opened, 0.0, limits.first_retry_seconds, longest)
        loop = asyncio.get_running_loop()
        destination.open_until = loop.time() + seconds
        loop.call_at(destination.open_until + 0.001, self._pump, destination)

    def _keep(self, destination: Destination) -> None:
        self._failing[destination] = None
        if len(self._failing) > _MOST_FAILING:
            del self._failing[next(iter(self._failing))]
