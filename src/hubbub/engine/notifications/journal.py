"""Journal events about notifications: their creation, and when they were read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hubbub.domain.journal import NOTIFICATION_CREATED, NOTIFICATION_READ, JournalEvent
from hubbub.domain.notifications import Notification
from hubbub.engine.channels.channel import Channel
from hubbub.ports.clock import Clock
from hubbub.ports.journal import Journal


class NotificationEvents:
    """Writes one event per notification; does nothing without a journal."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock

    def _wanted(self, channel: Channel) -> bool:
        return self._journal.enabled and channel.rules.journal != "off"

    def created(self, channel: Channel, new: Iterable[Notification]) -> None:
        if not self._wanted(channel):
            return
        for each in new:
            event = self._of(NOTIFICATION_CREATED, channel, each.id, each.timestamp)
            event.user = event.author = each.author
            event.event, event.content_type = each.event, each.content_type
            event.size = len(each.payload)
            if channel.rules.journal == "payload":
                event.payload = each.payload
            self._journal.record(event)

    def read(
        self, channel: Channel, marked: Sequence[tuple[str, int]], at: int, by: str | None
    ) -> None:
        """`duration` is the time from the creation to the mark, which was set `at` (ms)."""
        if not self._wanted(channel):
            return
        for identifier, created_at in marked:
            event = self._of(NOTIFICATION_READ, channel, identifier, created_at)
            event.user = by
            event.duration = max(0, at - created_at) * 1000
            self._journal.record(event)

    def _of(self, kind: str, channel: Channel, identifier: str, created_at: int) -> JournalEvent:
        return JournalEvent(
            kind,
            int(self._clock.now() * 1e6),
            channel.hub,
            channel=channel.name,
            message_id=identifier,
            published_at=created_at * 1000,
        )
