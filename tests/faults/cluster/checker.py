"""What must hold whatever fails, beside what the soak's books check: the order of what each
publisher was told, and that a durable subscription hands out everything in order."""

from __future__ import annotations

import time
from dataclasses import dataclass

from benchmarks.soak.ledger import Ledger, Track


@dataclass(slots=True)
class Pickup:
    """One durable subscription: every message comes, in order, and not again once that it was
    acknowledged is confirmed."""

    who: str
    channel: str
    ledger: Ledger
    serial: int = 0
    acknowledged: int = 0

    def take(self, serial: int, identifier: str) -> None:
        if serial <= self.acknowledged:
            self.ledger.problem(
                f"{self.who}: {self.channel} #{serial} was handed out again after"
                f" #{self.acknowledged} was acknowledged"
            )
        elif serial <= self.serial:
            self.ledger.counts["messages handed out again"] += 1
        elif serial > self.serial + 1:
            self.ledger.problem(f"{self.who}: {self.channel} goes from #{self.serial} to #{serial}")
        self.serial = max(serial, self.serial)
        self.ledger.saw(self.channel, "stored", serial, identifier)
        self.ledger.counts["messages picked up"] += 1


class Hearing:
    """How long after its acknowledgement a stored message reached a follower that was there."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._told: dict[tuple[str, int], float] = {}

    def told(self, channel: str, serial: int) -> None:
        self._told[channel, serial] = time.monotonic()

    def heard(self, channel: str, serial: int, since: float) -> None:
        told = self._told.get((channel, serial))
        if told is not None:
            self.longest = max(self.longest, time.monotonic() - max(told, since))


class TimedTrack(Track):
    """A follower's way along a stored channel, with the time at which it was subscribed last."""

    hearing: Hearing
    since = 0.0

    def begin(self, epoch: str, serial: int, recovered: bool, asked: bool) -> None:
        super().begin(epoch, serial, recovered, asked)
        self.since = time.monotonic()

    def take(self, serial: int, identifier: str) -> None:
        super().take(serial, identifier)
        self.hearing.heard(self.channel, serial, self.since)


def timed(track: Track, hearing: Hearing) -> Track:
    if not track.stored:
        return track
    made = TimedTrack(track.who, track.channel, track.stored, track.ledger)
    made.hearing = hearing
    return made


def check_order(ledger: Ledger) -> None:
    """What one publisher was told of one after the other lies one after the other."""
    for channel, told in ledger.acknowledged.items():
        last: dict[str, tuple[int, str]] = {}
        for identifier, serial in told.items():
            publisher = identifier.rpartition("-")[0]
            before, earlier = last.get(publisher, (0, ""))
            if serial <= before:
                ledger.problem(
                    f"{channel}: {identifier} is #{serial}, {earlier} before it #{before}"
                )
            last[publisher] = serial, identifier


def check_pickups(pickups: list[Pickup]) -> None:
    """At the end: nothing that was acknowledged was left out."""
    for pickup in pickups:
        told = pickup.ledger.acknowledged.get(pickup.channel, {})
        newest = max(told.values(), default=0)
        if pickup.serial < newest:
            pickup.ledger.problem(
                f"{pickup.who}: {pickup.channel} has #{newest}, it got only #{pickup.serial}"
            )
