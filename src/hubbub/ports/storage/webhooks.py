"""Webhooks and the topics of the web."""

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

    async def note_ping(self, hub: str, channel: str, url: str, now: int) -> None:
        """There is something new at the URL. Makes the topic where there is none; `pinged_at`
        becomes `now` (ms since 1970), and always rises."""

    async def note_failed_fetch(self, hub: str, channel: str, failures: int, error: str) -> None:
        """The fetch is tried again."""

    async def end_ping(self, hub: str, channel: str, pinged_at: int, well: bool) -> bool:
        """What was new then was fetched (`well`), or is given up. False: there is a newer ping, or
        no topic any more."""

    async def read_pinged(self, partitions: Sequence[int]) -> list[WebTopic]:
        """Topics of these partitions that are still to be fetched."""

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
        text: str = "",
        owner: str | None = None,
        peers: bool | None = None,
    ) -> list[Webhook]:
        """Of one hub, channel, owner or some partitions, or all; ordered by hub and id, those
        behind `after`. With `text`: where id, channel or callback holds it. `peers`: only those of
        the kind `peer`, or only the others."""

    async def count_webhooks(
        self,
        hub: str,
        channel: str | None = None,
        text: str = "",
        owner: str | None = None,
        peers: bool | None = None,
    ) -> int:
        """How many `read_webhooks` finds."""
