"""Attempts to send one message to one external receiver, until it arrives or is given up. Webhooks
and deliveries to peers differ only in their `Shipment`."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod

import msgspec

from hubbub.engine.outward.gate import Destination, OutgoingGate
from hubbub.engine.outward.limits import WebhookLimits
from hubbub.engine.outward.retrying import GivenUp, pause_seconds
from hubbub.ports.clock import Clock


class Expired(Exception):
    """The message's time to live ended before it arrived."""


class ReceiverEnded(Exception):
    """The receiver accepts no more messages."""


class Stopped(Exception):
    """This node no longer serves the receiver."""


class Attempted(msgspec.Struct, frozen=True):
    """The result of one attempt."""

    arrived: bool
    well: bool | None = None
    """Whether the destination is healthy; None if the attempt does not tell."""
    status: int | None = None
    """The HTTP status, if there was a response."""
    retry_after_seconds: float = 0.0


class Shipment(ABC):
    """One message on its way to one receiver."""

    __slots__ = ("failing_since",)

    def __init__(self) -> None:
        self.failing_since: float | None = None
        """In monotonic seconds."""

    @property
    @abstractmethod
    def destination(self) -> Destination: ...

    @property
    @abstractmethod
    def is_stopped(self) -> bool: ...

    @abstractmethod
    def lifetime(self) -> float:
        """The remaining time to live of the message in seconds. Raises `ReceiverEnded`."""

    @abstractmethod
    async def attempt(self, number: int) -> Attempted:
        """Makes one attempt. Raises `GivenUp` if a retry cannot help, and `ReceiverEnded`."""

    async def pause(self, seconds: float) -> None:
        """Waits for the next attempt, at most `seconds`."""
        await asyncio.sleep(seconds)

    @abstractmethod
    def note(self, attempts: int, next_try_at: int | None) -> None:
        """Records the number of failed attempts and when the next one is due (ms since 1970; None:
        now)."""


class Pace:
    """Limits a hub to a rate of requests per second by delaying the others."""

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
    """Runs the attempts of one node."""

    def __init__(self, gate: OutgoingGate, clock: Clock, limits: WebhookLimits) -> None:
        self._gate = gate
        self._clock = clock
        self._limits = limits

    async def deliver(self, shipment: Shipment, pace: Pace | None) -> None:
        """Returns once the message has arrived. Raises `GivenUp`, `Expired`, `ReceiverEnded`,
        `Stopped`."""
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
        """Makes one attempt, once the gate admits its destination. Raises `GivenUp`, `Expired`,
        `ReceiverEnded`."""
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
        """How many seconds this message may still be retried."""
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
