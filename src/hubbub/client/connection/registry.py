"""All subscriptions of a client by channel, and what the hub says about channels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from hubbub.client.connection.tracker import Tracker
from hubbub.client.events import AccessLost, Event, Told
from hubbub.client.subscription import Subscription
from hubbub.domain.errors import Conflict, HubbubError
from hubbub.domain.notices import (
    ChannelFailure,
    ChannelReset,
    Delivery,
    SubscribedChannel,
    Unsubscribed,
)
from hubbub.domain.requests import Position


class Registry:
    """A channel has at most one subscription; what comes for others is dropped."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._by_channel: dict[str, Subscription] = {}

    def add(self, subscription: Subscription) -> None:
        taken = [channel for channel in subscription.channels if channel in self._by_channel]
        if taken:
            raise Conflict(f"this client already has a subscription for {taken[0]!r}; use that")
        self._by_channel.update(dict.fromkeys(subscription.channels, subscription))

    def remove(self, subscription: Subscription) -> list[str]:
        """The channels that nobody wants any more."""
        channels = [
            channel
            for channel in subscription.channels
            if self._by_channel.get(channel) is subscription
        ]
        for channel in channels:
            del self._by_channel[channel]
        return channels

    def __contains__(self, channel: str) -> bool:
        return channel in self._by_channel

    def subscriptions(self) -> Iterable[Subscription]:
        return dict.fromkeys(self._by_channel.values())

    def trackers(self) -> Iterator[Tracker]:
        for subscription in self.subscriptions():
            yield from subscription.trackers

    def positions(self) -> list[Position]:
        positions = (tracker.position() for tracker in self.trackers())
        return [position for position in positions if position is not None]

    # -- from the hub ---------------------------------------------------------------------------

    def deliver(self, delivery: Delivery) -> Subscription | None:
        """Answers the subscription if it has no more room."""
        subscription = self._by_channel.get(delivery.message.channel)
        if subscription is None:
            return None
        subscription.deliver(delivery)
        return subscription if subscription.full else None

    def confirm(self, channels: Iterable[SubscribedChannel]) -> None:
        for confirmed in channels:
            subscription = self._by_channel.get(confirmed.channel)
            if subscription is not None:
                subscription.confirm(confirmed)

    def refuse(self, failures: Iterable[ChannelFailure]) -> None:
        """A subscription ends when any of its channels is refused."""
        for failure in failures:
            self._end(failure.channel, failure.error)

    def reset(self, notice: ChannelReset) -> None:
        subscription = self._by_channel.get(notice.channel)
        if subscription is not None:
            subscription.reset(notice)

    def withdraw(self, notice: Unsubscribed) -> None:
        """Access was taken away."""
        for failure in notice.failures:
            if failure.channel in self._by_channel:
                self._emit(AccessLost(failure.channel, failure.error))
                self._end(failure.channel, failure.error)

    def tell(self, event: Told) -> None:
        subscription = self._by_channel.get(event.channel)
        if subscription is not None:
            subscription.tell(event)
        self._emit(event)

    def finish(self, error: HubbubError | None) -> None:
        """The client is closed."""
        for subscription in self.subscriptions():
            subscription.finish(error)
        self._by_channel.clear()

    def _end(self, channel: str, error: HubbubError) -> None:
        subscription = self._by_channel.get(channel)
        if subscription is not None:
            self.remove(subscription)
            subscription.finish(error)
