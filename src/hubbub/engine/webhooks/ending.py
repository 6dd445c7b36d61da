"""Ends webhooks, and notifies WebSub subscribers of the end."""

from __future__ import annotations

import contextlib

from msgspec import UNSET

from hubbub.domain.audit import Audit
from hubbub.domain.errors import HubbubError, NotSubscribed, TopicNotFound
from hubbub.domain.rules import HubConfiguration
from hubbub.domain.topics import UnsubscribeTopic
from hubbub.domain.webhooks import Webhook
from hubbub.engine.outward.gate import OutgoingGate
from hubbub.engine.outward.limits import WebhookLimits
from hubbub.engine.webhooks.driven import key_of
from hubbub.engine.webhooks.replaying import dead_letters_key
from hubbub.engine.webhooks.requests import with_query
from hubbub.ports.bus import Ask
from hubbub.ports.outgoing import USER_AGENT, HttpRequest, SendFailed
from hubbub.ports.storage import Store


async def end_webhook(ask: Ask, store: Store, webhook: Webhook, audit: Audit = UNSET) -> bool:
    """Deletes the webhook and returns whether it existed: of concurrent callers one gets True and
    notifies the callback. Deletes the cursors first: at the next start, a webhook without a cursor
    is dropped. The first deletion also stores the audit entry."""
    for key in (key_of(webhook), dead_letters_key(key_of(webhook))):
        with contextlib.suppress(NotSubscribed, TopicNotFound):
            await ask(UnsubscribeTopic(key, audit))
            audit = UNSET
    return await store.audited(audit).delete_webhook(webhook.hub, webhook.id)


async def deny(
    outgoing: OutgoingGate,
    limits: WebhookLimits,
    hub: HubConfiguration,
    callback: str,
    topic: str,
    reason: str,
) -> None:
    """Tells a WebSub callback, in one attempt, that a subscription was refused or ended, and
    why."""
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
