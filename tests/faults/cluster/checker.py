"""What must hold whatever fails, beside what the soak's books check: the order of what each
publisher was told, and that a durable subscription hands out everything in order."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.soak.ledger import Ledger


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
