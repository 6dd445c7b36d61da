"""What durable subscriptions got and acknowledged, for the journal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hubbub.domain.journal import ACKNOWLEDGED, DEAD_LETTERED, EXPIRED, RECEIVED, JournalEvent
from hubbub.domain.topics import Article, SubscriptionKey, user_of
from hubbub.engine.channels.channel import Channel
from hubbub.ports.clock import Clock
from hubbub.ports.journal import Journal


class Receipts:
    """One event for each run of serials. Costs nothing where there is no journal."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock

    def _wanted(self, channel: Channel) -> bool:
        return self._journal.enabled and channel.rules.journal != "off"

    def received(self, channel: Channel, key: SubscriptionKey, articles: Sequence[Article]) -> None:
        """They were handed out; `delivery` says for which time."""
        if not self._wanted(channel):
            return
        first = last = times = 0
        for article in articles:
            serial = article.message.serial
            if serial != last + 1 or article.deliveries != times:
                self._tell(RECEIVED, channel, key, first, last, times)
                first, times = serial, article.deliveries
            last = serial
        self._tell(RECEIVED, channel, key, first, last, times)

    def acknowledged(
        self, channel: Channel, key: SubscriptionKey, runs: Iterable[tuple[int, int]]
    ) -> None:
        """The subscription will not get these again, and that is on disk."""
        if self._wanted(channel):
            for first, last in runs:
                self._tell(ACKNOWLEDGED, channel, key, first, last)

    def dead(self, channel: Channel, key: SubscriptionKey, serial: int, times: int) -> None:
        """It was handed out too often: it is with the dead letters now."""
        if self._wanted(channel):
            self._tell(DEAD_LETTERED, channel, key, serial, serial, times)

    def expired(
        self, channel: Channel, key: SubscriptionKey, runs: Iterable[tuple[int, int]]
    ) -> None:
        """The subscription will not get these: their time to live is over."""
        if self._wanted(channel):
            for first, last in runs:
                self._tell(EXPIRED, channel, key, first, last)

    def _tell(
        self,
        kind: str,
        channel: Channel,
        key: SubscriptionKey,
        first: int,
        last: int,
        times: int | None = None,
    ) -> None:
        if 0 < first <= last:
            self._journal.record(
                JournalEvent(
                    kind,
                    int(self._clock.now() * 1e6),
                    channel.hub,
                    channel=channel.name,
                    user=user_of(key.owner),
                    epoch=channel.epoch,
                    serial=last,
                    first_serial=first,
                    count=last - first + 1,
                    subscription=key.name,
                    delivery=times,
                )
            )
