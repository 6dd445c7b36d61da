"""Everything that a node sends to servers that tenants named: webhooks, verifications, fetches,
calls of services, auth providers and keys of issuers.

All of it goes through `OutgoingGate`. Requests under way are bounded in all, and each hub gets a
fair share of them. Counts, queues and circuit breakers are kept for each hub and destination, so
that what one hub asks for, however often it fails or hangs, is nothing to another hub, at the same
address either.
"""

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
from hubbub.engine.webhooks.limits import WebhookLimits
from hubbub.fair_slots import FairSlots
from hubbub.ports.outgoing import HttpRequest, HttpResponse, HttpSender, Purpose, SendFailed

Breaker = Literal["closed", "open", "probing"]

_PATIENT = ("webhook", "fetch", "push", "delivery")
"""Nobody waits for these: they wait until their destination is back, and there are few of them for
each webhook and topic. Somebody waits for all others: their queue is bounded, and while a breaker
is open they fail at once."""
_PROMPT_PER_DESTINATION = 100
_PROMPT_WAITING = 1000
"""Of one hub, for all destinations."""
_PROMPT_OPEN_SECONDS = 5.0
_ABSENT = ("connect", "resolve", "tls")
"""Failures that say that a destination is away; one that is slow may be so for one method only."""
_MOST_FAILING = 10_000


@dataclass(slots=True, eq=False, weakref_slot=True)
class Destination:
    """Where requests of one hub go for one purpose. State only; `OutgoingGate` drives it."""

    hub: str
    name: str
    patient: bool
    """Nobody waits for its requests."""
    most: int
    """Requests under way."""
    in_flight: int = 0
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)
    failures: int = 0
    """In a row."""
    opened: int = 0
    """How often in a row the breaker opened; 0: it is closed."""
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
        """Those that a webhook goes to, that have requests, or that fail."""
        self._failing: dict[Destination, None] = {}
        """Keeps the state of breakers; the oldest go first."""
        self._waiting: Counter[str] = Counter()
        """Requests that somebody waits for, by hub."""

    @property
    def in_flight(self) -> int:
        return self._slots.taken

    def open_breakers(self) -> int:
        return sum(1 for each in self._destinations.values() if each.opened)

    def destination(
        self, hub: str, purpose: Purpose, name: str, most: int | None = None
    ) -> Destination:
        """`name`: host and port, or what else tells destinations apart. `most` requests may be
        under way there; without it, as many as the purpose allows."""
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
        """One request, when its destination may have one, all within the request's own time.
        Raises `SendFailed`, and `BadRequest` for a URL that cannot be used."""
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
        """Between `enter` and `leave`. Raises `SendFailed` and `BadRequest`."""
        return await self._sender.send(request, reach)

    @asynccontextmanager
    async def slot(
        self, hub: str, purpose: Purpose, name: str, seconds: float
    ) -> AsyncIterator[float]:
        """For a request that does not go over HTTP; answers the seconds that are left for it.
        Raises `Overloaded`."""
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
        """Raises `BadRequest`; `NotPermitted` where the URL leads to an address now that is out of
        reach. It is checked again whenever it is connected to."""
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
        """Wait until a request may go out, then call `leave` after it. False: it took too long, or
        too many of the hub wait already."""
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
        """For the destination, then for a slot of the whole."""
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
        """`well`: whether the destination is; None: nobody knows."""
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
        """The breaker is open, and it is not the time to find out whether it is back."""
        now = asyncio.get_running_loop().time()
        return bool(destination.opened) and (destination.probing or now < destination.open_until)

    def _admit(self, destination: Destination) -> None:
        destination.in_flight += 1
        destination.probing = bool(destination.opened)

    def _pump(self, destination: Destination) -> None:
        """Let those through who may go."""
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
