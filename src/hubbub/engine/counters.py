"""What a hub has done so far, as plain numbers that cost next to nothing to keep."""

from __future__ import annotations

BUCKETS = 24
"""Processing times are counted by powers of two of microseconds, up to 8 seconds."""


class Durations:
    """How long something took, how often."""

    __slots__ = ("buckets", "count", "seconds")

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0
        """In all."""
        self.buckets = [0] * BUCKETS

    def took(self, seconds: float) -> None:
        self.count += 1
        self.seconds += seconds
        bucket = int(seconds * 1e6).bit_length()
        self.buckets[bucket if bucket < BUCKETS else -1] += 1


class HubCounters:
    """Totals since the start of the process."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "calls",
        "calls_failed",
        "duplicates",
        "messages_expired",
        "messages_in",
        "messages_out",
        "messages_refused",
        "publishes",
        "puts",
        "sessions_closed",
        "sessions_opened",
        "slow_consumers",
        "stream_events",
        "stream_events_failed",
        "subscriptions",
    )

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        self.messages_out = 0
        self.bytes_out = 0
        self.messages_refused = 0
        self.messages_expired = 0
        """Not delivered to live subscribers, since their time to live was over; each is counted
        once for all subscribers of this node, and once for each replay."""
        self.puts = 0
        self.duplicates = 0
        """Puts that were there already."""
        self.calls = 0
        """Of services, those that failed among them; refusals of the service are answers."""
        self.calls_failed = 0
        self.stream_events = 0
        self.stream_events_failed = 0
        self.sessions_opened = 0
        self.sessions_closed = 0
        self.slow_consumers = 0
        self.subscriptions = 0
        """How many there are now."""
        self.publishes = Durations()
        """Publish requests, by the time it took until they were handed on."""

    @property
    def sessions(self) -> int:
        """Those that are open now."""
        return self.sessions_opened - self.sessions_closed


class TopicCounters:
    """What the owner of a hub's channels did for its durable subscriptions, in messages since the
    start of the process."""

    __slots__ = (
        "acknowledged",
        "dead_letters",
        "expired",
        "handed_out",
        "missed",
        "reclaimed",
        "reclaimed_bytes",
        "redelivered",
    )

    def __init__(self) -> None:
        self.handed_out = 0
        self.redelivered = 0
        self.acknowledged = 0
        self.dead_letters = 0
        self.expired = 0
        """Their time to live was over before a subscription, or a webhook, got them; counted for
        each."""
        self.missed = 0
        """Deleted by a limit before a subscription got them; counted for each."""
        self.reclaimed = 0
        """Deleted by retention."""
        self.reclaimed_bytes = 0
