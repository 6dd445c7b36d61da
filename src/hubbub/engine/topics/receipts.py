"""Journal events about deliveries to durable subscriptions and their acknowledgements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hubbub.domain.journal import (
    ACKNOWLEDGED,
    DEAD_LETTERED,
    EXPIRED,
    RECEIVED,
    JournalEvent,
    bucket_of,
)
from hubbub.domain.messages import Message
from hubbub.domain.topics import Article, SubscriptionKey, user_of
from hubbub.engine.channels.channel import Channel
from hubbub.ports.clock import Clock
from hubbub.ports.journal import Journal


class Receipts:
    """Writes one event per run of serials; does nothing without a journal."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock

    def _wanted(self, channel: Channel) -> bool:
        return self._journal.enabled and channel.rules.journal != "off"

    def received(
        self,
        channel: Channel,
        key: SubscriptionKey,
        articles: Sequence[Article],
        technology: str = "",
    ) -> None:
        """Messages were delivered. `delivery` is the delivery count; `technology` names the
        protocol of the subscriber."""
        if not self._wanted(channel) or not articles:
            return
        if len(articles) == 1 or _is_run(articles):
            self._handed_out(channel, key, articles, technology)
            return
        run: list[Article] = []
        for article in articles:
            if run and not _goes_on(run[-1], article):
                self._handed_out(channel, key, run, technology)
                run = []
            run.append(article)
        if run:
            self._handed_out(channel, key, run, technology)

    def _handed_out(
        self, channel: Channel, key: SubscriptionKey, run: Sequence[Article], technology: str
    ) -> None:
        event = self._event(RECEIVED, channel, key, run[0].message.serial, run[-1].message.serial)
        event.delivery = run[0].deliveries
        if technology:
            event.technology = technology
            if len(run) == 1:  # the usual case
                _add_latency(event, run[0].message)
            else:
                _add_latencies(event, [article.message for article in run])
        self._journal.record(event)

    def acknowledged(
        self, channel: Channel, key: SubscriptionKey, runs: Iterable[tuple[int, int]]
    ) -> None:
        """The acknowledgement of these messages is on disk."""
        if self._wanted(channel):
            for first, last in runs:
                self._tell(ACKNOWLEDGED, channel, key, first, last)

    def dead(self, channel: Channel, key: SubscriptionKey, serial: int, times: int) -> None:
        """The message was delivered too often and became a dead letter."""
        if self._wanted(channel):
            self._tell(DEAD_LETTERED, channel, key, serial, serial, times)

    def expired(
        self, channel: Channel, key: SubscriptionKey, runs: Iterable[tuple[int, int]]
    ) -> None:
        """The messages expired before the subscription received them."""
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
            event = self._event(kind, channel, key, first, last)
            event.delivery = times
            self._journal.record(event)

    def _event(
        self, kind: str, channel: Channel, key: SubscriptionKey, first: int, last: int
    ) -> JournalEvent:
        event = JournalEvent(  # by position: some of its many fields by name take twice as long
            kind,
            int(self._clock.now() * 1e6),
            channel.hub,
            "",
            channel.name,
            None,
            user_of(key.owner),
            None,
            None,
            channel.epoch,
            last,
            first,
        )
        event.count = last - first + 1
        event.subscription = key.name
        return event


def _latency(event: JournalEvent, message: Message) -> int:
    """The time from the acceptance of the message to the event; 0 if the clock was set back."""
    return max(event.at - (message.taken_at or message.published_at * 1000), 0)


def _add_latency(event: JournalEvent, message: Message) -> None:
    """`_add_latencies` for one message."""
    event.size = len(message.payload)
    latency = _latency(event, message)
    event.latency_sum = event.latency_min = event.latency_max = latency
    event.latency_squares = float(latency * latency)
    event.latency_buckets = {bucket_of(latency): 1}


def _add_latencies(event: JournalEvent, messages: list[Message]) -> None:
    event.size = sum([len(each.payload) for each in messages])
    at = event.at
    latencies = [at - (each.taken_at or each.published_at * 1000) for each in messages]
    if min(latencies) < 0:  # the clock was set back
        latencies = [max(each, 0) for each in latencies]
    least, most = min(latencies), max(latencies)
    event.latency_sum = sum(latencies)
    event.latency_min, event.latency_max = least, most
    event.latency_squares = float(sum([each * each for each in latencies]))
    if bucket_of(least) == bucket_of(most):
        event.latency_buckets = {bucket_of(least): len(latencies)}
        return
    buckets: dict[int, int] = {}
    event.latency_buckets = buckets
    for bucket in map(bucket_of, latencies):  # a Counter takes longer to make than to use
        buckets[bucket] = buckets.get(bucket, 0) + 1


def _is_run(articles: Sequence[Article]) -> bool:
    """Whether the serials are consecutive."""
    serials = [article.message.serial for article in articles]
    times = articles[0].deliveries
    return serials == list(range(serials[0], serials[0] + len(serials))) and not [
        article for article in articles if article.deliveries != times
    ]


def _goes_on(before: Article, article: Article) -> bool:
    """Whether the next message continues a run with the same delivery count."""
    return (
        article.message.serial == before.message.serial + 1
        and article.deliveries == before.deliveries
    )
