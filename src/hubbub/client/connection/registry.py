"""All subscriptions of a client by channel, and the hub's notices about channels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from hubbub.client.events import AccessLost, Event, Told
from hubbub.client.subscription import Subscription
from hubbub.client.tracker import Tracker
from hubbub.domain.errors import Conflict, HubbubError
from hubbub.domain.notices import (
    ChannelFailure,
    ChannelReset,
    MessageDelivery,
    Subscribed,
    SubscribedChannel,
    SubscribedPattern,
    Unsubscribed,
)
from hubbub.domain.requests import Position


class Registry:
    """A channel has at most one subscription; deliveries for other channels are dropped."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._by_channel: dict[str, Subscription] = {}

    def add(self, subscription: Subscription) -> None:
        held = {each: self._by_channel.get(each) for each in subscription.channels}
        taken = [each for each, other in held.items() if other and not other._matched(each)]
        if taken:
            raise Conflict(f"this client already has a subscription for {taken[0]!r}; use that")
        for channel, other in held.items():
            if other is not None:
                other._forget(channel)  # by its name it goes to the new one
        self._by_channel.update(dict.fromkeys(subscription.channels, subscription))

    def remove(self, subscription: Subscription) -> list[str]:
        """Returns the channels and patterns that are no longer needed. Matching channels end with
        their pattern."""
        channels = [
            channel
            for channel in subscription.channels
            if self._by_channel.get(channel) is subscription
        ]
        for channel in channels:
            del self._by_channel[channel]
        return [channel for channel in channels if not subscription._matched(channel)]

    def __contains__(self, channel: str) -> bool:
        return channel in self._by_channel

    def subscriptions(self) -> Iterable[Subscription]:
        return dict.fromkeys(self._by_channel.values())

    def trackers(self) -> Iterator[Tracker]:
        for subscription in self.subscriptions():
            yield from subscription._each_tracker

    def show(self, channel: str, data: dict[str, Any]) -> None:
        """Sets the presence data that the client sends when it subscribes again."""
        for tracker in self.trackers():
            if tracker.channel == channel:
                tracker.presence = data

    def positions(self) -> list[Position]:
        positions = (tracker.position() for tracker in self.trackers())
        return [position for position in positions if position is not None]

    # -- from the hub ---------------------------------------------------------------------------

    def deliver(self, delivery: MessageDelivery) -> Subscription | None:
        """Returns the subscription if its queue is full."""
        subscription = self._by_channel.get(delivery.message.channel)
        if subscription is None:
            return None
        subscription._deliver(delivery)
        return subscription if subscription._full else None

    def confirm(self, channels: Iterable[SubscribedChannel]) -> None:
        for confirmed in channels:
            subscription = self._by_channel.get(confirmed.channel)
            if subscription is not None:
                subscription._confirm(confirmed)

    def confirm_patterns(self, patterns: Iterable[SubscribedPattern]) -> None:
        for confirmed in patterns:
            subscription = self._by_channel.get(confirmed.pattern)
            if subscription is not None:
                subscription._confirm_pattern(confirmed)

    def match(self, notice: Subscribed) -> list[str]:
        """Handles channels that newly match a pattern, or failed to be followed. Returns the
        channels that subscriptions follow; the others are the user's own (`hSubscribe`)."""
        matched = []
        for confirmed in notice.channels:
            subscription = self._by_channel.get(confirmed.channel) or self._matching(
                confirmed.channel
            )
            if subscription is not None and subscription._matched(confirmed.channel):
                subscription._confirm(confirmed)
                matched.append(confirmed.channel)
        for failure in notice.failures:
            for subscription in self.subscriptions():
                if subscription._pattern_of(failure.channel) is not None:
                    subscription._leave_out(failure.channel, failure.error)
        return matched

    def _matching(self, channel: str) -> Subscription | None:
        for subscription in self.subscriptions():
            if subscription._match(channel):
                self._by_channel[channel] = subscription
                return subscription
        return None

    def refuse(self, failures: Iterable[ChannelFailure]) -> None:
        """Ends each subscription with a refused channel."""
        for failure in failures:
            self._end(failure.channel, failure.error)

    def reset(self, notice: ChannelReset) -> None:
        subscription = self._by_channel.get(notice.channel)
        if subscription is not None:
            subscription._reset(notice)

    def withdraw(self, notice: Unsubscribed) -> None:
        """Access was revoked, or matching channels were deleted."""
        for failure in notice.failures:
            if failure.channel in self._by_channel:
                self._emit(AccessLost(failure.channel, failure.error))
                self._end(failure.channel, failure.error)
        for channel in notice.channels:
            self._forget(channel)

    def tell(self, event: Told) -> None:
        subscription = self._by_channel.get(event.channel)
        if subscription is not None:
            subscription._tell(event)
        self._emit(event)

    def finish(self, error: HubbubError | None) -> None:
        """Ends all subscriptions, since the client is closed."""
        for subscription in self.subscriptions():
            subscription._finish(error)
        self._by_channel.clear()

    def _end(self, channel: str, error: HubbubError) -> None:
        subscription = self._by_channel.get(channel)
        if subscription is not None and not self._forget(channel):
            self.remove(subscription)
            subscription._finish(error)

    def _forget(self, channel: str) -> bool:
        """Returns whether the channel was followed by a pattern."""
        subscription = self._by_channel.get(channel)
        if subscription is None or not subscription._matched(channel):
            return False
        del self._by_channel[channel]
        subscription._forget(channel)
        return True
