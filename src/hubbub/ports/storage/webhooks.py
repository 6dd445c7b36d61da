"""Webhooks and web topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hubbub.domain.webhooks import Webhook, WebTopic
from hubbub.ports.storage.audited import Audited


class WebhookStore(Audited, Protocol):
    """Webhooks, and the topics that web publishers registered."""

    async def add_web_topic(self, topic: WebTopic) -> bool:
        """Returns False, without effect, if the channel already has a topic."""

    async def save_web_topic(self, topic: WebTopic) -> None:
        """Creates or replaces."""

    async def read_web_topic(self, hub: str, channel: str) -> WebTopic | None: ...

    async def list_web_topics(self, hub: str, after: str, limit: int) -> list[WebTopic]:
        """Topics by channel name, after `after`."""

    async def delete_web_topic(self, hub: str, channel: str) -> bool:
        """Returns whether it existed."""

    async def note_ping(self, hub: str, channel: str, url: str, now: int) -> None:
        """Records that the URL has new content. Creates the topic if necessary; `pinged_at` becomes
        `now` (ms since 1970) and always rises."""

    async def note_failed_fetch(self, hub: str, channel: str, failures: int, error: str) -> None:
        """Records a failed fetch, which will be retried."""

    async def end_ping(self, hub: str, channel: str, pinged_at: int, well: bool) -> bool:
        """Ends the ping: its content was fetched (`well`) or given up. Returns False if there is a
        newer ping, or no topic any more."""

    async def read_pinged(self, partitions: Sequence[int]) -> list[WebTopic]:
        """Topics of these partitions with pending fetches."""

    async def create_webhook(self, webhook: Webhook) -> None:
        """Like `save_webhook`, for a new webhook. Raises `QuotaExceeded`."""

    async def save_webhook(self, webhook: Webhook) -> None:
        """Creates or replaces by hub and id."""

    async def delete_webhook(self, hub: str, webhook: str) -> bool:
        """Returns whether it existed."""

    async def read_webhook(self, hub: str, webhook: str) -> Webhook | None:
        """Looks up a webhook by id."""

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
        """Webhooks of one hub, channel, owner or some partitions, or all; ordered by hub and id,
        after `after`. `text`: only those with it in id, channel or callback. `peers`: only the kind
        `peer`, or only the others."""

    async def count_webhooks(
        self,
        hub: str,
        channel: str | None = None,
        text: str = "",
        owner: str | None = None,
        peers: bool | None = None,
    ) -> int:
        """The number of webhooks that `read_webhooks` finds."""
