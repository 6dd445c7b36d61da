"""What a hub has done so far, as plain numbers that cost next to nothing to keep."""

from __future__ import annotations

from dataclasses import dataclass, field

BUCKETS = 24
"""Processing times are counted by powers of two of microseconds, up to 8 seconds."""


@dataclass(slots=True, eq=False)
class Durations:
    """How long something took, how often."""

    count: int = 0
    seconds: float = 0.0
    """In all."""
    buckets: list[int] = field(default_factory=lambda: [0] * BUCKETS)

    def took(self, seconds: float) -> None:
        self.count += 1
        self.seconds += seconds
        bucket = int(seconds * 1e6).bit_length()
        self.buckets[bucket if bucket < BUCKETS else -1] += 1

    def took_often(self, microseconds: int, count: int) -> None:
        """So many took about so long; the sum is counted by the caller, who knows it exactly."""
        self.count += count
        bucket = microseconds.bit_length()
        self.buckets[bucket if bucket < BUCKETS else -1] += count


@dataclass(slots=True, eq=False)
class HubCounters:
    """Totals since the start of the process."""

    messages_in: int = 0
    bytes_in: int = 0
    messages_out: int = 0
    bytes_out: int = 0
    messages_refused: int = 0
    messages_expired: int = 0
    """Not delivered to live subscribers, since their time to live was over; each is counted once
    for all subscribers of this node, and once for each replay."""
    notifications: int = 0
    """Created."""
    puts: int = 0
    duplicates: int = 0
    """Puts that were there already."""
    calls: int = 0
    """Of services, those that failed among them; refusals of the service are answers."""
    calls_failed: int = 0
    stream_events: int = 0
    stream_events_failed: int = 0
    sessions_opened: int = 0
    sessions_closed: int = 0
    slow_consumers: int = 0
    subscriptions: int = 0
    """How many there are now."""
    publishes: Durations = field(default_factory=Durations)
    """Publish requests, by the time it took until they were handed on."""

    @property
    def sessions(self) -> int:
        """Those that are open now."""
        return self.sessions_opened - self.sessions_closed


@dataclass(slots=True, eq=False)
class TopicCounters:
    """What the owner of a hub's channels did for its durable subscriptions, in messages since the
    start of the process."""

    handed_out: int = 0
    redelivered: int = 0
    acknowledged: int = 0
    dead_letters: int = 0
    expired: int = 0
    """Their time to live was over before a subscription, or a webhook, got them; counted for
    each."""
    missed: int = 0
    """Deleted by a limit before a subscription got them; counted for each."""
    reclaimed: int = 0
    """Deleted by retention."""
    reclaimed_bytes: int = 0
