"""The registry of subscribers: all recipients of messages, with the identity they read under.

Only a registered `Subscriber` receives messages of a channel. When settings change or tokens are
revoked, one call (`review`) ends the lost access of all of them, whatever their kind."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from hubbub.domain.errors import HUB_AWAY, HubbubError, InvalidToken, NotPermitted
from hubbub.domain.filters.filters import Screen
from hubbub.domain.names import without_dead_letters
from hubbub.domain.permissions import DoorReader, Identity, Reader, may_read, may_stay, refusal
from hubbub.domain.rules import HubConfiguration, HubSettings, Rules
from hubbub.engine.access.tokens import ANY_HUB, Tokens

_REMEMBERED_RULES = 16384
_PORTION = 200
"""Subscribers reviewed in one turn of the event loop; one takes 7 to 12 microseconds."""


class Subscriber(ABC):
    """A recipient of messages from channels of one hub, while `reader` may read them.

    A new kind of subscription is a subclass. It registers with `AccessRegistry.add` before it
    receives anything, and leaves with `remove` when it ends."""

    __slots__ = ()

    @property
    @abstractmethod
    def reader(self) -> Reader:
        """The identity under which it reads."""

    def reader_of(self, channel: str) -> Reader:
        """The identity with which the subscriber reads one channel."""
        return self.reader

    def screen(self, channel: str) -> Screen | None:
        """The filters that messages of the channel must pass; None if there are none."""
        return None

    @abstractmethod
    def followed(self) -> Collection[str]:
        """The channels that it follows."""

    @abstractmethod
    def lose(self, channels: Sequence[str], error: NotPermitted) -> None:
        """The subscriber may no longer read these channels: after the return it receives none of
        their messages. Never raises."""

    @abstractmethod
    def end(self, error: HubbubError) -> None:
        """The identity was revoked (`InvalidToken`), or the hub was deleted (`HubNotFound`): after
        the return the subscriber receives nothing. Never raises."""


class _Decided(msgspec.Struct, eq=False):
    """The effective settings of a channel, cached."""

    configuration: HubConfiguration
    rules: Rules
    reader: Identity | None = None
    """The last reader that was found to be permitted."""


class AccessRegistry:
    """All subscribers of one node. Runs on the event loop's thread and never waits."""

    def __init__(self, configuration_of: Callable[[str], HubConfiguration], tokens: Tokens) -> None:
        self._configuration_of = configuration_of
        self._tokens = tokens
        self._of_hub: dict[str, dict[Subscriber, None]] = {}
        self._rules: dict[tuple[str, str], _Decided] = {}
        """By hub and channel."""
        self._under_review: dict[str, bool] = {}
        """Hubs under review, and whether settings changed again since the review began."""

    def add(self, hub: str, subscriber: Subscriber) -> None:
        """Registers the subscriber, and at once ends access that was revoked before, for example
        while the subscription was on disk. Adding it again reviews it again."""
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
        """Registers a subscriber for the duration of a request."""
        self.add(hub, subscriber)
        try:
            yield
        finally:
            self.remove(hub, subscriber)

    # -- deciding -------------------------------------------------------------------------------

    def check(self, hub: str, reader: Reader, channel: str) -> None:
        """Raises `HubNotFound`, `InvalidToken` (expired or revoked) or `NotPermitted` if the reader
        may not receive messages of the channel now."""
        self._tokens.check(reader.identity, hub)
        configuration = self._configuration_of(hub)
        if not self._may_read(reader, channel, configuration):
            rules = configuration.rules_for(channel)
            raise refusal(reader.identity, "subscribe to", channel, rules)

    def admit(self, hub: str, subscriber: Subscriber, channel: str) -> None:
        """Raises `NotPermitted` if the subscriber may not follow the channel, or is not
        registered."""
        known = subscriber in self._of_hub.get(hub, ())
        configuration = self._configuration_of(hub)
        reader = subscriber.reader_of(channel)
        if not known or not self._may_read(reader, channel, configuration):
            rules = configuration.rules_for(channel)
            raise refusal(reader.identity, "subscribe to", channel, rules)

    def may_stay(self, hub: str, reader: Reader, channel: str) -> bool:
        """Whether a subscription of the reader to the channel would survive a review now."""
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
        if permitted and not (reader.open_topic or isinstance(reader, DoorReader)):
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
        """Called when the settings or revocations of a hub changed: ends subscriptions that lost
        access. `ANY_HUB`: the revocations for all hubs changed.

        A hub with many subscribers is reviewed in slices, one per turn of the loop, so that one
        tenant's changes do not delay the others."""
        for name in list(self._of_hub) if hub == ANY_HUB else [hub]:
            if name in self._under_review:
                self._under_review[name] = True
            else:
                self._begin_review(name)

    def review_channel(self, hub: str, channel: str) -> None:
        """Called when the owner of a channel changed its access; also reviews its dead letters.
        Sliced like `review`."""
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
        """Reviews one subscriber, whose identity may have changed."""
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
    """Whether the token's issuer is trusted; None is the hub itself or one of its auth
    providers."""
    return issuer is None or any(each.issuer == issuer for each in settings.trusted_issuers)
