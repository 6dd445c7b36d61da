"""Fan-out to subscribers with filters: subscribers with equal filters for a channel form one group,
so that a message needs one evaluation for all of them.

A group evaluates its filters not when a message arrives but when it is its turn to write, in
slices: no hub waits for the filters of another."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from hubbub.domain.filters.filters import Filters, Screen
from hubbub.domain.filters.view import MessageView
from hubbub.domain.messages import Message
from hubbub.domain.notices import ChannelReset, Notice
from hubbub.engine.delivery.fanout import SLICE_WRITES, Group
from hubbub.engine.delivery.tally import Noted, Tally
from hubbub.engine.large_work import HubSlices
from hubbub.ports.connection import Transmitter

SLICE_CHECKS = 2000
"""Comparisons in one turn of the event loop: about half a millisecond."""
_QUESTION_SHARE = 4
"""The share of a slice for a query, which is slower so that it does not delay live messages."""
_BYTES_OF_A_CHECK = 4
_BYTES_OF_A_NOTICE = 200


class Offer(msgspec.Struct, eq=False, frozen=True):
    """A message for all filtered groups of a channel."""

    view: MessageView
    epoch: str
    previous: int | None
    """The serial that the message follows, if others were skipped for all subscribers."""
    tallies: set[Tally]
    """Tallies that have counted the message."""


@dataclass(slots=True, eq=False, kw_only=True)
class ScreenedGroup(Group):
    """Subscribers of one channel with equal filters and encoding."""

    screen: Screen
    skipped_after: int | None = None
    """The serial that the next message names as previous, since later ones were filtered out; None:
    the last message passed."""
    _offered: deque[Offer | Notice | bytes] = field(default_factory=deque)
    _offered_bytes: int = 0

    def put(self, unit: bytes) -> None:
        self._offer(unit)

    def offer(self, offer: Offer | Notice) -> None:
        """Messages are encoded in the group's turn: an encoder's output may depend on earlier
        messages, also of other channels, and must reach the client in that order."""
        self._offer(offer)

    def _offer(self, offer: Offer | Notice | bytes) -> None:
        size = self._size_of(offer)
        self._offered.append(offer)
        self._offered_bytes += size
        self._grow(size)

    def settle(self) -> None:
        """Evaluates all pending messages, because a position in the channel is about to change."""
        self._screen(None)

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
            cost = self._screen(budget * SLICE_CHECKS // SLICE_WRITES)
            self._pack_units()
        if not self._jobs:
            return max(1, cost)
        return cost + super(ScreenedGroup, self).write(transmit, budget)

    def _screen(self, most: int | None) -> int:
        """Evaluates messages up to this number of comparisons; None: all of them. Returns the cost,
        in writes."""
        checks = 0
        while self._offered and (most is None or checks < most):
            offer = self._offered.popleft()
            size = self._size_of(offer)
            self._offered_bytes -= size
            if isinstance(offer, bytes):
                unit: bytes | None = offer
            elif isinstance(offer, Notice):
                unit = self._said(offer)
            else:
                unread = offer.view.unread
                unit = self._passed(offer)
                checks += self.screen.checks + unread - offer.view.unread
            if unit is not None:
                self._units.append(unit)
                size -= len(unit)
            self._size -= size
        return checks * SLICE_WRITES // SLICE_CHECKS

    def _said(self, notice: Notice) -> bytes:
        if isinstance(notice, ChannelReset):
            self.skipped_after = None  # serials begin anew
        return self.encoder.encode(notice)

    def _size_of(self, offer: Offer | Notice | bytes) -> int:
        """A message that waits for its evaluation counts as larger than it is: a group whose
        evaluation lags is congested, too."""
        if isinstance(offer, bytes):
            return len(offer)
        if isinstance(offer, Notice):
            return _BYTES_OF_A_NOTICE
        return len(offer.view.message.payload) + _BYTES_OF_A_CHECK * self.screen.checks

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


def _earlier(serial: int, other: int | None) -> int:
    return serial if other is None else min(serial, other)


def earlier(serial: int | None, other: int | None) -> int | None:
    """The smaller serial; None: nothing was skipped."""
    return other if serial is None else _earlier(serial, other)


class Screening:
    """Filters the messages of one query, in slices: a hub has one slice of comparisons per turn of
    the event loop, for all queries together."""

    def __init__(self, screen: Screen | Filters | None, now: int, slices: HubSlices) -> None:
        """`now`: milliseconds since 1970. Without a screen every message passes."""
        self._screen = screen
        self._now = now
        self._slices = slices
        self._left = SLICE_CHECKS // _QUESTION_SHARE

    @property
    def checks(self) -> int:
        """The maximum number of comparisons for a message."""
        return 0 if self._screen is None else self._screen.checks

    async def passes(self, message: Message) -> bool:
        return self._screen is None or await self.admits(MessageView(message, self._now))

    async def admits(self, view: MessageView, made: int = 0) -> bool:
        """`made`: the cost of creating the view, in comparisons."""
        assert self._screen is not None
        if self._left <= 0:
            await self._slices.next()
            self._left = SLICE_CHECKS // _QUESTION_SHARE
        self._left -= made + self._screen.checks + view.unread
        return self._screen.passes(view)

    async def passing(self, messages: Iterable[Message]) -> list[Message]:
        return [message for message in messages if await self.passes(message)]
