"""What was promised and what was seen: the books that a soak is judged by."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Ledger:
    """Shared by all clients. `problems` is empty after a good run."""

    problems: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    acknowledged: dict[str, dict[str, int]] = field(default_factory=dict)
    """By stored channel: the serial of each message id whose publisher was told of it."""
    uncertain: set[str] = field(default_factory=set)
    """Ids whose publisher was cut off before the answer: they may be there once, or not."""
    phase: str = ""
    """What goes on just now; problems are noted with it."""
    states: dict[str, int] = field(default_factory=dict)
    """By channel: the retained value that was acknowledged last."""
    _seen: dict[tuple[str, str, int], str] = field(default_factory=dict)

    def problem(self, text: str) -> None:
        self.problems.append(f"{self.phase}: {text}" if self.phase else text)

    def acknowledge(self, channel: str, identifier: str, serial: int) -> None:
        self.counts["stored publishes acknowledged"] += 1
        self.acknowledged.setdefault(channel, {})[identifier] = serial

    def saw(self, channel: str, epoch: str, serial: int, identifier: str) -> None:
        """All followers must see the same message at the same place."""
        known = self._seen.setdefault((channel, epoch, serial), identifier)
        if known != identifier:
            self.problem(f"{channel} #{serial} is {known} to some and {identifier} to others")


@dataclass(slots=True)
class Track:
    """One follower's way along one channel: the next message must be the next in order, unless
    the hub has said that something is missing, which it may only where nothing is stored."""

    who: str
    channel: str
    stored: bool
    ledger: Ledger
    epoch: str = ""
    serial: int | None = None
    """The last one seen; None: any may come next."""

    def begin(self, epoch: str, serial: int, recovered: bool, asked: bool) -> None:
        """The hub confirms a subscription; `asked`: for what follows our position."""
        if not asked:
            self.serial = serial
        elif not recovered:
            self.gap("not recovered")
        elif epoch != self.epoch:
            self.ledger.problem(f"{self.who}: {self.channel} claims to be recovered in a new epoch")
        self.epoch = epoch

    def gap(self, why: str) -> None:
        """The hub announces that messages are missing."""
        self.serial = None
        if self.stored:
            self.ledger.problem(f"{self.who}: the stored {self.channel} has a gap: {why}")
        else:
            self.ledger.counts["gaps of live channels, announced"] += 1

    def take(self, serial: int, identifier: str) -> None:
        expected = serial if self.serial is None else self.serial + 1
        if serial < expected:
            self.ledger.problem(f"{self.who}: {self.channel} #{serial} came twice")
        elif serial > expected:
            self.ledger.problem(
                f"{self.who}: {self.channel} goes from #{expected - 1} to #{serial} without a word"
            )
        self.serial = serial
        self.ledger.counts["deliveries checked"] += 1
        self.ledger.saw(self.channel, self.epoch, serial, identifier)
