"""Fan-out to subscribers with filters: those whose filters for a channel say the same are one
group, so that a message costs one evaluation for all of them.

A group does not evaluate its filters when a message arrives but when it is its turn to write, in
slices: no hub waits for the filters of another one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from hubbub.domain.filters.filters import Screen
from hubbub.domain.filters.view import MessageView
from hubbub.domain.messages import Message
from hubbub.engine.delivery.fanout import SLICE_WRITES, Group
from hubbub.engine.delivery.tally import Noted, Tally
from hubbub.ports.connection import Transmitter

SLICE_CHECKS = 2000
"""Comparisons in one turn of the loop: about half a millisecond."""


class Offer(msgspec.Struct, eq=False, frozen=True):
    """A message for all groups of a channel that have filters."""

    view: MessageView
    epoch: str
    previous: int | None
    """The serial that the message follows, where others were left out for everybody."""
    tallies: set[Tally]
    """Those that have counted the message."""


@dataclass(slots=True, eq=False, kw_only=True)
class ScreenedGroup(Group):
    """Subscribers of one channel that take the same bytes of the messages that pass."""

    screen: Screen
    skipped_after: int | None = None
    """The serial that the next message names, since those after it did not pass; None: the last
    message passed."""
    _offered: deque[Offer | bytes] = field(default_factory=deque)
    _offered_bytes: int = 0

    def put(self, unit: bytes) -> None:
        self._offer(unit)

    def offer(self, offer: Offer) -> None:
        self._offer(offer)
        if self.encoder.in_order:
            self.settle()

    def _offer(self, offer: Offer | bytes) -> None:
        size = _size_of(offer)
        self._offered.append(offer)
        self._offered_bytes += size
        self._grow(size)

    def settle(self) -> None:
        """Evaluate all that was offered: a position in the channel is about to change."""
        self._screen(len(self._offered))

    def reset(self) -> None:
        """Serials begin anew."""
        self.settle()
        self.skipped_after = None

    def _pack(self) -> None:
        self.settle()
        self._pack_units()

    def _pack_units(self) -> None:
        # Slots make a new class: `super()` without arguments would mean the one without them.
        super(ScreenedGroup, self)._pack_units()
        self._size = self._offered_bytes

    @property
    def waits(self) -> bool:
        return bool(self._jobs or self._units or self._offered)

    def write(self, transmit: Transmitter, budget: int) -> int:
        cost = 0
        if not self._jobs:
            cost = self._screen(max(1, SLICE_CHECKS // self.screen.checks))
            self._pack_units()
        if not self._jobs:
            return max(1, cost)
        return cost + super(ScreenedGroup, self).write(transmit, budget)

    def _screen(self, most: int) -> int:
        """Evaluate so many offers; answers what that cost, in writes."""
        count = min(most, len(self._offered))
        for _ in range(count):
            offer = self._offered.popleft()
            size = _size_of(offer)
            self._offered_bytes -= size
            unit = offer if isinstance(offer, bytes) else self._passed(offer)
            if unit is not None:
                self._units.append(unit)
                size -= len(unit)
            self._size -= size
        return count * self.screen.checks * SLICE_WRITES // SLICE_CHECKS

    def _passed(self, offer: Offer) -> bytes | None:
        view, previous = offer.view, offer.previous
        message = view.message
        if not self.screen.passes(view):
            if message.serial and self.skipped_after is None:
                self.skipped_after = message.serial - 1 if previous is None else previous
            return None
        if self.skipped_after is not None and message.serial:
            previous = _earlier(self.skipped_after, previous)
            self.skipped_after = None
        key = (self.encoder, previous)
        unit = view.units.get(key)
        if unit is None:
            unit = view.units[key] = self.encoder.encode_message(message, offer.epoch, previous)
        if self.tally is not None:
            if self._noted is None:
                self._noted = Noted(offer.epoch)
            self.tally.note(self._noted, message, offer.tallies)
        return unit


def _size_of(offer: Offer | bytes) -> int:
    return len(offer if isinstance(offer, bytes) else offer.view.message.payload)


def _earlier(serial: int, other: int | None) -> int:
    return serial if other is None else min(serial, other)


def earlier(serial: int | None, other: int | None) -> int | None:
    """None: nothing was left out."""
    return other if serial is None else _earlier(serial, other)


async def screened(screen: Screen, messages: Iterable[Message], now: int) -> list[Message]:
    """Those that pass, in turns of the loop. `now`: milliseconds since 1970."""
    found = []
    checks = 0
    for message in messages:
        checks += screen.checks
        if checks > SLICE_CHECKS:
            checks = 0
            await asyncio.sleep(0)
        if screen.passes(MessageView(message, now)):
            found.append(message)
    return found
