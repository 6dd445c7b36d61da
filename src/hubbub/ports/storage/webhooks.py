"""Webhooks and the topics of the web.."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hubbub.domain.webhooks import Webhook, WebTopic


class WebhookStore(Protocol):
    """Webhooks, and the topics that web publishers registered."""

    async def add_web_topic(self, topic: WebTopic) -> bool:
        """False: there is one for this channel already, which stays as it is."""

    async def save_web_topic(self, topic: WebTopic) -> None:
        """Create or replace."""

    async def read_web_topic(self, hub: str, channel: str) -> WebTopic | None: ...

    async def list_web_topics(self, hub: str, after: str, limit: int) -> list[WebTopic]:
        """In the order of their channels, those behind `after`."""

    async def delete_web_topic(self, hub: str, channel: str) -> bool:
        """Whether it was there."""

    async def save_webhook(self, webhook: Webhook) -> None:
        """Create or replace, by hub and id."""

    async def delete_webhook(self, hub: str, webhook: str) -> bool:
        """Whether there was one with this id."""

    async def read_webhook(self, hub: str, webhook: str) -> Webhook | None:
        """By its id."""

    async def read_webhooks(
        self,
        hub: str | None = None,
        channel: str | None = None,
        partitions: Sequence[int] | None = None,
        after: tuple[str, str] | None = None,
        limit: int | None = None,
    ) -> list[Webhook]:
        """Of one hub, channel or some partitions, or all; ordered by hub and id, those behind
        `after`."""

    async def count_webhooks(self, hub: str) -> int: ...
