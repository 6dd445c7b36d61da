"""The end of a webhook."""

from __future__ import annotations

import contextlib

from hubbub.domain.errors import NotSubscribed, TopicNotFound
from hubbub.domain.topics import UnsubscribeTopic
from hubbub.domain.webhooks import Webhook
from hubbub.engine.webhooks.push import key_of
from hubbub.engine.webhooks.replaying import letters_key
from hubbub.ports.bus import Topic
from hubbub.ports.storage import Store


async def end_webhook(topic: Topic, store: Store, webhook: Webhook) -> None:
    """Its place goes first: a row without one is dropped at the next start."""
    for key in (key_of(webhook), letters_key(key_of(webhook))):
        with contextlib.suppress(NotSubscribed, TopicNotFound):
            await topic(UnsubscribeTopic(key))
    await store.delete_webhook(webhook.hub, webhook.id)
