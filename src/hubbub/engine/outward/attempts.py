"""Attempts: one message to one receiver outside, until it arrives or is given up. Webhooks and
deliveries to peers differ only in their `Shipment`."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod

import msgspec

from hubbub.engine.outgoing import Destination, OutgoingGate
from hubbub.engine.outward.retrying import GivenUp, pause_seconds
from hubbub.engine.webhooks.limits import WebhookLimits
from hubbub.ports.clock import Clock


class Expired(Exception):
    """The message's time to live was over before it arrived."""


class Ended(Exception):
    """The receiver takes no more messages at all."""


class Stopped(Exception):
    """The receiver is not served on this node any more."""


class Attempted(msgspec.Struct, frozen=True):
    """How one attempt went."""

    arrived: bool
    well: bool | None = None
    """Whether the destination is; None: nobody knows."""
    status: int | None = None
    """Of HTTP, where there was an answer."""
    retry_after_seconds: float = 0.0


class Shipment(ABC):
    """One message on its way to one receiver."""

    __slots__ = ("failing_since",)

    def __init__(self) -> None:
        self.failing_since: float | None = None
        """Monotonic seconds."""

    @property
    @abstractmethod
    def destination(self) -> Destination: ...

    @property
    @abstractmethod
    def is_stopped(self) -> bool: ...

    @abstractmethod
    def lifetime(self) -> float:
        """For how many seconds the message may still be delivered. Raises `Ended`."""

    @abstractmethod
    async def attempt(self, number: int) -> Attempted:
        """Raises `GivenUp` where no other attempt can help, and `Ended`."""

    async def pause(self, seconds: float) -> None:
        """Until the next attempt: at most so long."""
        await asyncio.sleep(seconds)

    @abstractmethod
    def note(self, attempts: int, next_try_at: int | None) -> None:
        """So many attempts failed so far; the next one is due then (ms since 1970, None: at
        once)."""


class Pace:
    """So many requests each second for a hub; what is too fast waits."""

    __slots__ = ("_next", "_rate")

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._next = 0.0

    async def wait(self) -> None:
        now = asyncio.get_running_loop().time()
        due = max(now - 1.0, self._next)  # what a quiet second left over may go at once
        self._next = due + 1 / self._rate
        if due > now:
            await asyncio.sleep(due - now)


class OutwardAttempts:
    """Of one node."""

    def __init__(self, gate: OutgoingGate, clock: Clock, limits: WebhookLimits) -> None:
        self._gate = gate
        self._clock = clock
        self._limits = limits

    async def deliver(self, shipment: Shipment, pace: Pace | None) -> None:
        """Until it has arrived. Raises `GivenUp`, `Expired`, `Ended`, `Stopped`."""
        attempts = 0
        try:
            while True:
                attempted = await self.once(shipment, attempts + 1, pace, self._patience(shipment))
                if attempted.arrived:
                    return
                attempts += 1
                if shipment.failing_since is None:
                    shipment.failing_since = self._clock.monotonic()
                if shipment.is_stopped:
                    raise Stopped
                await self._wait(shipment, attempts, attempted)
        finally:
            shipment.note(0, None)

    async def once(
        self, shipment: Shipment, number: int, pace: Pace | None, patience_seconds: float
    ) -> Attempted:
        """One attempt, when its destination may have one. Raises `GivenUp`, `Expired`, `Ended`."""
        if pace is not None:
            await pace.wait()
        destination = shipment.destination
        lifetime = shipment.lifetime()
        if not await self._gate.enter(destination, min(patience_seconds, lifetime)):
            raise Expired if lifetime < patience_seconds else GivenUp
        well: bool | None = None
        try:
            if shipment.lifetime() <= 0:
                raise Expired
            attempted = await shipment.attempt(number)
            well = attempted.well
        finally:
            self._gate.leave(destination, well)
        return attempted

    def _patience(self, shipment: Shipment) -> float:
        """How long this message may still take."""
        if shipment.failing_since is None:
            return self._limits.give_up_seconds
        gone = self._clock.monotonic() - shipment.failing_since
        return max(0.0, self._limits.give_up_seconds - gone)

    async def _wait(self, shipment: Shipment, attempts: int, attempted: Attempted) -> None:
        seconds = pause_seconds(
            self._limits,
            attempts,
            attempted.status,
            attempted.retry_after_seconds,
            self._patience(shipment),
        )
        if seconds >= shipment.lifetime():
            raise Expired
        shipment.note(attempts, int((self._clock.now() + seconds) * 1000))
        await shipment.pause(seconds)
        shipment.note(attempts, None)
