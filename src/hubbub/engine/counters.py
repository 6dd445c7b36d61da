"""Counters of a hub, kept as plain integers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from hubbub.domain.metering import slot_of

BUCKETS = 24
"""Upper bounds of the histogram: powers of two of microseconds, up to 8 seconds."""


@dataclass(slots=True, eq=False)
class Durations:
    """A histogram of durations."""

    count: int = 0
    seconds: float = 0.0
    """The sum of all durations."""
    buckets: list[int] = field(default_factory=lambda: [0] * BUCKETS)

    def took(self, seconds: float) -> None:
        self.count += 1
        self.seconds += seconds
        bucket = int(seconds * 1e6).bit_length()
        self.buckets[bucket if bucket < BUCKETS else -1] += 1

    def took_often(self, microseconds: int, count: int) -> None:
        """Adds `times` durations of about the same length; the caller adds their exact sum."""
        self.count += count
        bucket = microseconds.bit_length()
        self.buckets[bucket if bucket < BUCKETS else -1] += count


@dataclass(slots=True, eq=False)
class Visits:
    """Sessions that were opened in the same five minutes."""

    opened: int = 0
    ended: int = 0
    microseconds: int = 0
    """How long those that have ended lasted together."""


@dataclass(slots=True, eq=False)
class HubCounters:
    """Totals since the start of the process."""

    messages_in: int = 0
    bytes_in: int = 0
    messages_out: int = 0
    bytes_out: int = 0
    messages_refused: int = 0
    messages_expired: int = 0
    """Messages whose time to live ended before live subscribers received them, counted once per
    node and once per replay."""
    notifications: int = 0
    """Created notifications."""
    puts: int = 0
    duplicates: int = 0
    """Puts that repeated a stored message."""
    calls: int = 0
    """Calls of services, including failed ones; a refusal by the service is a response."""
    calls_failed: int = 0
    stream_events: int = 0
    stream_events_failed: int = 0
    sessions_opened: int = 0
    sessions_closed: int = 0
    slow_consumers: int = 0
    subscriptions: int = 0
    """The current number."""
    visits: dict[int, Visits] = field(default_factory=dict)
    """By the slot in which the sessions were opened; the room `metering` takes them out."""
    publishes: Durations = field(default_factory=Durations)
    """Publish requests, by the time until they were handed to the channel's owner."""

    def session_opened(self, at: int) -> None:
        """`at`: in microseconds since 1970."""
        self._visits(at).opened += 1

    def session_ended(self, opened_at: int, microseconds: int) -> None:
        visits = self._visits(opened_at)
        visits.ended += 1
        visits.microseconds += microseconds

    def _visits(self, at: int) -> Visits:
        return self.visits.setdefault(slot_of(at / 1e6), Visits())

    @property
    def sessions(self) -> int:
        """The number of open sessions."""
        return self.sessions_opened - self.sessions_closed


@dataclass(slots=True, eq=False)
class TopicCounters:
    """Messages handled for durable subscriptions by the owner of a hub's channels, since the start
    of the process."""

    handed_out: int = 0
    redelivered: int = 0
    acknowledged: int = 0
    dead_letters: int = 0
    expired: int = 0
    """Messages whose time to live ended before a durable subscription or webhook received them,
    counted for each."""
    missed: int = 0
    """Messages deleted by a limit before a subscription received them, counted for each."""
    reclaimed: int = 0
    """Messages deleted by retention."""
    reclaimed_bytes: int = 0


class RoomFigure(NamedTuple):
    """A metric of a room: `hubbub_NAME`, with a series per hub. Hubs that are missing in `values`
    have 0."""

    name: str
    about: str
    values: Mapping[str, float]
    rises: bool = False
    """A total since the start of the process, not a current value."""
