"""The registry of subscribers: who is given messages, as whom, and how that ends.

Nobody gets messages of a channel but a `Subscriber` that is in the registry. When settings change
or tokens are revoked, one call (`review`) takes access away from all of them, whatever their kind.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from hubbub.domain.errors import HUB_AWAY, HubbubError, InvalidToken, NotPermitted
from hubbub.domain.filters.filters import Screen
from hubbub.domain.names import without_dead_letters
from hubbub.domain.permissions import Identity, Reader, may_read, may_stay, refusal
from hubbub.domain.rules import HubConfiguration, HubSettings, Rules
from hubbub.engine.access.tokens import ANY_HUB, Tokens
from hubbub.engine.directory import ConfigurationOf

_REMEMBERED_RULES = 16384
_PORTION = 200
"""Subscribers that are reviewed in one turn of the loop: one takes 7 to 12 microseconds."""


class Subscriber(ABC):
    """Somebody who is given messages of one hub's channels, as long as `reader` may read them.

    A new kind of subscription is a subclass. It is made known with `AccessRegistry.add` before it
    is given anything, and taken out with `remove` when it is over."""

    __slots__ = ()

    @property
    @abstractmethod
    def reader(self) -> Reader:
        """As whom it reads."""

    def reader_of(self, channel: str) -> Reader:
        """The identity with which the subscriber reads one channel."""
        return self.reader

    def screen(self, channel: str) -> Screen | None:
        """The filters that a message of the channel must pass; None: there are none."""
        return None

    @abstractmethod
    def followed(self) -> Collection[str]:
        """The channels whose messages it is given."""

    @abstractmethod
    def lose(self, channels: Sequence[str], error: NotPermitted) -> None:
        """The subscriber may no longer read these channels, which it follows: it gets no more of
        their messages when this returns. Never raises."""

    @abstractmethod
    def end(self, error: HubbubError) -> None:
        """The identity was revoked (`InvalidToken`), or the hub is gone (`HubNotFound`): the
        subscriber gets no more messages when this returns. Never raises."""


class _Decided(msgspec.Struct, eq=False):
    """What the settings of a hub say about a channel."""

    configuration: HubConfiguration
    rules: Rules
    reader: Identity | None = None
    """The last one who was found to be permitted to read it."""


class AccessRegistry:
    """All subscribers of one node. On the event loop's thread; nothing here waits."""

    def __init__(self, configuration_of: ConfigurationOf, tokens: Tokens) -> None:
        self._configuration_of = configuration_of
        self._tokens = tokens
        self._of_hub: dict[str, dict[Subscriber, None]] = {}
        self._rules: dict[tuple[str, str], _Decided] = {}
        """By hub and channel."""
        self._under_review: dict[str, bool] = {}
        """Hubs, and whether something changed again since their review began."""

    def add(self, hub: str, subscriber: Subscriber) -> None:
        """From now on the subscriber loses what is taken away. What was taken away before, while it
        was on disk or on its way here, it loses at once. Adding again reviews it again."""
        self._of_hub.setdefault(hub, {})[subscriber] = None
        self.review_one(hub, subscriber)

    def remove(self, hub: str, subscriber: Subscriber) -> None:
        subscribers = self._of_hub.get(hub)
        if subscribers is not None:
            subscribers.pop(subscriber, None)
            if not subscribers:
                del self._of_hub[hub]

    @contextmanager
    def adding(self, hub: str, subscriber: Subscriber) -> Iterator[None]:
        """For one that lasts as long as a request."""
        self.add(hub, subscriber)
        try:
            yield
        finally:
            self.remove(hub, subscriber)

    # -- deciding -------------------------------------------------------------------------------

    def check(self, hub: str, reader: Reader, channel: str) -> None:
        """Raises `HubNotFound`, `InvalidToken` (expired or revoked) or `NotPermitted` where
        messages of the channel may not be handed to the reader now."""
        self._tokens.check(reader.identity, hub)
        configuration = self._configuration_of(hub)
        if not self._may_read(reader, channel, configuration):
            raise refusal("subscribe to", channel, configuration.rules_for(channel))

    def admit(self, hub: str, subscriber: Subscriber, channel: str) -> None:
        """Raises `NotPermitted` where the subscriber may not follow the channel, also for a
        subscriber that was not added, or was removed."""
        known = subscriber in self._of_hub.get(hub, ())
        configuration = self._configuration_of(hub)
        if not known or not self._may_read(subscriber.reader_of(channel), channel, configuration):
            raise refusal("subscribe to", channel, configuration.rules_for(channel))

    def may_stay(self, hub: str, reader: Reader, channel: str) -> bool:
        """Whether a subscription that the reader has to the channel would outlast a review now."""
        try:
            configuration = self._configuration_of(hub)
        except HUB_AWAY:
            return False
        identity = reader.identity
        return (
            not self._tokens.revoked(identity, hub)
            and _is_trusted(identity.issuer, configuration.settings)
            and self._may_stay(reader, channel, configuration)
        )

    def _may_read(self, reader: Reader, channel: str, configuration: HubConfiguration) -> bool:
        known = self._decided(channel, configuration)
        if known.reader is reader.identity:
            return True
        permitted = may_read(reader, channel, configuration, known.rules)
        if permitted and not reader.open_topic:
            known.reader = reader.identity
        return permitted

    def _may_stay(self, reader: Reader, channel: str, configuration: HubConfiguration) -> bool:
        known = self._decided(channel, configuration)
        return known.reader is reader.identity or may_stay(
            reader, channel, configuration, known.rules
        )

    def _decided(self, channel: str, configuration: HubConfiguration) -> _Decided:
        key = configuration.hub, channel
        known = self._rules.get(key)
        if known is None or known.configuration is not configuration:
            if len(self._rules) >= _REMEMBERED_RULES:
                self._rules.clear()
            known = self._rules[key] = _Decided(configuration, configuration.rules_for(channel))
        return known

    # -- taking away ----------------------------------------------------------------------------

    def review(self, hub: str) -> None:
        """The settings of a hub or its revocations changed: whoever lost access loses their
        subscriptions. `ANY_HUB`: the revocations that hold in all hubs changed.

        A hub with many subscribers is reviewed in portions, a turn of the loop for each, so that
        the changes of one tenant hold up no other."""
        for name in list(self._of_hub) if hub == ANY_HUB else [hub]:
            if name in self._under_review:
                self._under_review[name] = True
            else:
                self._begin_review(name)

    def review_channel(self, hub: str, channel: str) -> None:
        """What the owner of one channel decided about it changed; its dead letters follow it. In
        portions like `review`."""
        self._review_followers(hub, channel, list(self._of_hub.get(hub, ())))

    def _review_followers(self, hub: str, channel: str, waiting: list[Subscriber]) -> None:
        for subscriber in waiting[-_PORTION:]:
            followed = (without_dead_letters(each) for each in subscriber.followed())
            if channel in followed and subscriber in self._of_hub.get(hub, ()):
                self.review_one(hub, subscriber)
        del waiting[-_PORTION:]
        if waiting:
            asyncio.get_running_loop().call_soon(self._review_followers, hub, channel, waiting)

    def _begin_review(self, hub: str) -> None:
        self._under_review[hub] = False
        self._review_portion(hub, list(self._of_hub.get(hub, ())))

    def _review_portion(self, hub: str, waiting: list[Subscriber]) -> None:
        for subscriber in waiting[-_PORTION:]:
            if subscriber in self._of_hub.get(hub, ()):
                self.review_one(hub, subscriber)
        del waiting[-_PORTION:]
        if waiting:
            asyncio.get_running_loop().call_soon(self._review_portion, hub, waiting)
        elif self._under_review.pop(hub):
            self._begin_review(hub)

    def review_one(self, hub: str, subscriber: Subscriber) -> None:
        """Review one subscriber, whose identity may have changed."""
        try:
            configuration = self._configuration_of(hub)
        except HUB_AWAY as error:
            subscriber.end(error)
            return
        reader = subscriber.reader
        if self._tokens.revoked(reader.identity, hub):
            subscriber.end(InvalidToken("the token was revoked; get a new one"))
            return
        if not _is_trusted(reader.identity.issuer, configuration.settings):
            subscriber.end(InvalidToken("the hub no longer trusts the issuer of the token"))
            return
        lost = [
            channel
            for channel in subscriber.followed()
            if not self._may_stay(subscriber.reader_of(channel), channel, configuration)
            or self._tokens.revoked(subscriber.reader_of(channel).identity, hub)
            or not _is_trusted(
                subscriber.reader_of(channel).identity.issuer, configuration.settings
            )
        ]
        if lost:
            subscriber.lose(lost, NotPermitted("the permission to subscribe was taken away"))


def _is_trusted(issuer: str | None, settings: HubSettings) -> bool:
    """None: the hub itself, or one of its auth providers."""
    return issuer is None or any(each.issuer == issuer for each in settings.trusted_issuers)
