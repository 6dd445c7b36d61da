"""A waiting `get`, as a subscriber that can lose access meanwhile."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hubbub.domain.errors import HubbubError, NotPermitted
from hubbub.domain.permissions import Reader
from hubbub.domain.topics import GetMessages
from hubbub.engine.access.registry import Subscriber
from hubbub.engine.topics.cursors import DurableSubscription


class WaitingGet(Subscriber):
    """A waiting consumer at the owner of the channel. After a wake-up its access is checked again,
    and the get fails if it was revoked; the durable subscription keeps its cursor."""

    __slots__ = ("_channel", "_reader", "_subscription")

    def __init__(self, request: GetMessages, subscription: DurableSubscription) -> None:
        self._channel = request.key.channel
        self._subscription = subscription
        self._reader = request.reader

    @property
    def reader(self) -> Reader:
        return self._reader

    def followed(self) -> Collection[str]:
        return (self._channel,)

    def lose(self, channels: Sequence[str], error: NotPermitted) -> None:
        self._subscription.wake()

    def end(self, error: HubbubError) -> None:
        self._subscription.wake()
