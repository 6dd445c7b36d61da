"""The end of a webhook, and what WebSub subscribers are told of it."""

from __future__ import annotations

import contextlib

from hubbub.domain.errors import HubbubError, NotSubscribed, TopicNotFound
from hubbub.domain.rules import HubConfiguration
from hubbub.domain.topics import UnsubscribeTopic
from hubbub.domain.webhooks import Webhook
from hubbub.engine.outgoing import OutgoingGate
from hubbub.engine.webhooks.limits import WebhookLimits
from hubbub.engine.webhooks.push import key_of
from hubbub.engine.webhooks.replaying import dead_letters_key
from hubbub.engine.webhooks.requests import USER_AGENT, with_query
from hubbub.ports.bus import Topic
from hubbub.ports.outgoing import HttpRequest, SendFailed
from hubbub.ports.storage import Store


async def end_webhook(topic: Topic, store: Store, webhook: Webhook) -> bool:
    """Whether it was there: of several that end it at the same time, one tells its callback.
    Deletes the cursors first: a webhook without a cursor is dropped at the next start."""
    for key in (key_of(webhook), dead_letters_key(key_of(webhook))):
        with contextlib.suppress(NotSubscribed, TopicNotFound):
            await topic(UnsubscribeTopic(key))
    return await store.delete_webhook(webhook.hub, webhook.id)


async def deny(
    outgoing: OutgoingGate,
    limits: WebhookLimits,
    hub: HubConfiguration,
    callback: str,
    topic: str,
    reason: str,
) -> None:
    """Tell a callback of WebSub, once, that there is no subscription, or none any more, and why. It
    may not hear it."""
    fields = {"hub.mode": "denied", "hub.topic": topic, "hub.reason": reason}
    request = HttpRequest(
        hub.hub,
        "GET",
        with_query(callback, fields),
        (("User-Agent", USER_AGENT),),
        timeout_seconds=limits.timeout_seconds,
        max_answer_bytes=limits.answer_bytes,
    )
    with contextlib.suppress(SendFailed, HubbubError):
        await outgoing.send("webhook", request, hub.settings.callback_addresses)
