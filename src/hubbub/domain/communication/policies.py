"""Delivery policies: when a message counts as delivered to a peer or a collective.

Each is a state machine that is fed with outcomes and gives exactly one verdict; what comes later
changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Literal

import msgspec

from hubbub.domain.communication.peers import Address, CollectivePolicy, PeerPolicy

Result = Literal["met", "failed", "timed_out"]


class Verdict(msgspec.Struct, frozen=True):
    """What became of a message to one receiver. `reason` says why it failed."""

    result: Result
    reason: str = ""
    tried: bool = True
    """Whether at least one adapter was asked to deliver it."""


def choose_addresses(
    addresses: Sequence[Address], policy: PeerPolicy, is_served: Callable[[Address], bool]
) -> list[Address]:
    """The addresses that a message to a peer goes to, in order (algorithm 2.1). An address that is
    not served, since its adapter does not exist or cannot be made, is passed over. PREFERRED takes
    the first that is left, and asks about no other. The same address twice counts once."""
    served = filter(is_served, dict.fromkeys(addresses))
    return list(islice(served, 1) if policy == "PREFERRED" else served)


class PeerProgress:
    """A message on its way to one peer, by as many adapters as were chosen."""

    __slots__ = ("_failures", "_seen", "expected", "policy", "verdict")

    def __init__(self, policy: PeerPolicy, expected: int) -> None:
        self.policy = policy
        self.expected = expected
        self.verdict: Verdict | None = None
        self._seen: set[str] = set()
        self._failures: dict[str, str] = {}

    def feed(self, channel: str, reason: str | None, tried: bool = True) -> Verdict | None:
        """What became of the copy to one channel (`reason` None: it arrived). Answers the verdict
        if this outcome decides; a channel that was heard of before changes nothing."""
        if channel in self._seen:
            return None
        self._seen.add(channel)
        if reason is not None:
            self._failures[channel] = reason
        if self.verdict is None:
            self.verdict = self._decide(reason is None, tried)
            return self.verdict
        return None

    def refuse(self, reason: str) -> Verdict | None:
        """Nothing could be tried."""
        if self.verdict is not None:
            return None
        self.verdict = Verdict("failed", reason, tried=False)
        return self.verdict

    def _decide(self, arrived: bool, tried: bool) -> Verdict | None:
        successes = len(self._seen) - len(self._failures)
        if self.policy == "TO_ALL_CHANNELS":
            if not arrived:
                return self._failed(tried)
            return Verdict("met") if successes == self.expected else None
        if arrived:
            return Verdict("met")
        return self._failed(tried) if len(self._failures) >= self.expected else None

    def _failed(self, tried: bool) -> Verdict:
        return Verdict("failed", "; ".join(dict.fromkeys(self._failures.values())), tried)

    @property
    def complete(self) -> bool:
        """Whether every channel was heard of."""
        return len(self._seen) >= self.expected


class CollectiveProgress:
    """A message on its way to the members of a collective."""

    __slots__ = ("_failed", "_met", "members", "policy", "verdict")

    def __init__(self, policy: CollectivePolicy, members: int) -> None:
        self.policy = policy
        self.members = members
        self.verdict: Verdict | None = None
        self._met: set[str] = set()
        self._failed: dict[str, str] = {}
        if not members:
            self.verdict = Verdict("failed", "the collective is empty", tried=False)

    def feed(self, member: str, verdict: Verdict) -> Verdict | None:
        """A member's verdict. Answers that of the collective if this one decides."""
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

    def _decide(self, member: str, verdict: Verdict) -> Verdict | None:
        if self.policy == "TO_ALL_MEMBERS":
            if verdict.result != "met":
                return Verdict("failed", f"{member}: {verdict.reason}")
            return Verdict("met") if len(self._met) == self.members else None
        if verdict.result == "met":
            return Verdict("met")
        if len(self._failed) == self.members:
            return Verdict("failed", f"{member}: {verdict.reason}")
        return None
