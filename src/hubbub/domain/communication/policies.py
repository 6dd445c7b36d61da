"""Delivery policies: when a message counts as delivered to a peer or a collective.

Each policy is a state machine that receives outcomes and returns exactly one verdict; later
outcomes change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Literal

import msgspec

from hubbub.domain.communication.peers import Address, CollectivePolicy, PeerPolicy

Result = Literal["met", "failed", "timed_out"]


class DeliveryVerdict(msgspec.Struct, frozen=True):
    """The result of delivering a message to one receiver. `reason` says why it failed."""

    result: Result
    reason: str = ""
    tried: bool = True
    """Whether at least one adapter attempted the delivery."""


def choose_addresses(
    addresses: Sequence[Address], policy: PeerPolicy, is_served: Callable[[Address], bool]
) -> list[Address]:
    """Returns the addresses that a message to a peer goes to, in order (algorithm 2.1). An address
    whose adapter does not exist or cannot be created is skipped. PREFERRED takes the first served
    address and asks about no other. Duplicates count once."""
    served = filter(is_served, dict.fromkeys(addresses))
    return list(islice(served, 1) if policy == "PREFERRED" else served)


class PeerProgress:
    """The progress of a message to one peer through the chosen adapters."""

    __slots__ = ("_failures", "_seen", "expected", "policy", "verdict")

    def __init__(self, policy: PeerPolicy, expected: int) -> None:
        self.policy = policy
        self.expected = expected
        self.verdict: DeliveryVerdict | None = None
        self._seen: set[str] = set()
        self._failures: dict[str, str] = {}

    def feed(self, channel: str, reason: str | None, tried: bool = True) -> DeliveryVerdict | None:
        """Records the outcome at one channel (`reason` None: delivered). Returns the verdict if
        this outcome decides it; a repeated outcome of a channel changes nothing."""
        if channel in self._seen:
            return None
        self._seen.add(channel)
        if reason is not None:
            self._failures[channel] = reason
        if self.verdict is None:
            self.verdict = self._decide(reason is None, tried)
            return self.verdict
        return None

    def refuse(self, reason: str) -> DeliveryVerdict | None:
        """Ends the message without any attempt."""
        if self.verdict is not None:
            return None
        self.verdict = DeliveryVerdict("failed", reason, tried=False)
        return self.verdict

    def _decide(self, arrived: bool, tried: bool) -> DeliveryVerdict | None:
        successes = len(self._seen) - len(self._failures)
        if self.policy == "TO_ALL_CHANNELS":
            if not arrived:
                return self._failed(tried)
            return DeliveryVerdict("met") if successes == self.expected else None
        if arrived:
            return DeliveryVerdict("met")
        return self._failed(tried) if len(self._failures) >= self.expected else None

    def _failed(self, tried: bool) -> DeliveryVerdict:
        return DeliveryVerdict("failed", "; ".join(dict.fromkeys(self._failures.values())), tried)

    @property
    def complete(self) -> bool:
        """Whether every channel has an outcome."""
        return len(self._seen) >= self.expected


class CollectiveProgress:
    """The progress of a message to the members of a collective."""

    __slots__ = ("_failed", "_met", "members", "policy", "verdict")

    def __init__(self, policy: CollectivePolicy, members: int) -> None:
        self.policy = policy
        self.members = members
        self.verdict: DeliveryVerdict | None = None
        self._met: set[str] = set()
        self._failed: dict[str, str] = {}
        if not members:
            self.verdict = DeliveryVerdict("failed", "the collective is empty", tried=False)

    def feed(self, member: str, verdict: DeliveryVerdict) -> DeliveryVerdict | None:
        """Records a member's verdict. Returns the collective's verdict if this one decides it."""
        if member in self._met or member in self._failed:
            return None
        if verdict.result == "met":
            self._met.add(member)
        else:
            self._failed[member] = verdict.reason
        if self.verdict is None:
            self.verdict = self._decide(member, verdict)
            return self.verdict
        return None

    def _decide(self, member: str, verdict: DeliveryVerdict) -> DeliveryVerdict | None:
        if self.policy == "TO_ALL_MEMBERS":
            if verdict.result != "met":
                return DeliveryVerdict("failed", f"{member}: {verdict.reason}")
            return DeliveryVerdict("met") if len(self._met) == self.members else None
        if verdict.result == "met":
            return DeliveryVerdict("met")
        if len(self._failed) == self.members:
            return DeliveryVerdict("failed", f"{member}: {verdict.reason}")
        return None
