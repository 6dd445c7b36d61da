"""Counters of push, kept as plain integers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import msgspec

from hubbub.domain.push.tokens import Platform
from hubbub.engine.counters import Durations


class LastPushError(msgspec.Struct, frozen=True):
    """`at` is in ms since 1970; `status` None: no response."""

    at: int
    peer: str
    reason: str
    status: int | None = None


@dataclass(slots=True, eq=False)
class HubPushCounters:
    """Counters of a hub since the start of the process."""

    outcomes: Counter[tuple[Platform, str]] = field(default_factory=Counter)
    """Attempts by platform and outcome (`domain.journal.PUSH_OUTCOMES`)."""
    answered: dict[Platform, Durations] = field(default_factory=dict)
    """Pushes that services accepted."""
    overflowed: int = 0
    """Messages and deliveries that were dropped because the queue was full."""
    succeeded_at: dict[Platform, int] = field(default_factory=dict)
    """When a service last accepted a push (ms since 1970)."""
    errors: dict[Platform, LastPushError] = field(default_factory=dict)
