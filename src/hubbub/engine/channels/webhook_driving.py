"""What the owner of channels knows of who sends their messages to webhooks."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from hubbub.domain.errors import Unavailable
from hubbub.domain.messages import Message
from hubbub.domain.topics import TopicAnswer, TopicPinged, WebhookChanged, WebhookRequest


class WebhookDriving(Protocol):
    def owned(self, partitions: Collection[int]) -> None:
        """The owner begins to own these."""

    def released(self, partitions: Collection[int]) -> None:
        """Another node owns these now."""

    def delivered(self, message: Message) -> None:
        """A message of one of the owner's channels is on disk. Never blocks, never raises."""

    def erased(self, hub: str, channel: str) -> None:
        """Messages of a channel changed in the store: what waits in memory is read again."""

    def hub_changed(self, hub: str) -> None:
        """The settings of a hub changed, or it is gone."""

    async def hub_resumed(self, hub: str) -> None:
        """A hub that was away has come back, with other webhooks perhaps."""

    async def settle_hub(self, hub: str) -> None:
        """Wait until nothing is acknowledged for a hub that is away."""

    async def serve(self, request: WebhookRequest) -> TopicAnswer:
        """Raises `NotSubscribed` for a webhook that is not there."""


class NoWebhooks:
    """Where no webhooks are driven."""

    def owned(self, partitions: Collection[int]) -> None:
        pass

    def released(self, partitions: Collection[int]) -> None:
        pass

    def delivered(self, message: Message) -> None:
        pass

    def erased(self, hub: str, channel: str) -> None:
        pass

    def hub_changed(self, hub: str) -> None:
        pass

    async def hub_resumed(self, hub: str) -> None:
        pass

    async def settle_hub(self, hub: str) -> None:
        pass

    async def serve(self, request: WebhookRequest) -> TopicAnswer:
        if isinstance(request, WebhookChanged | TopicPinged):
            return None
        raise Unavailable("this node drives no webhooks")
