"""Routes of plain webhooks, for the description; `gateways.webhooks_api` serves them."""

from __future__ import annotations

from hubbub.domain.errors import (
    NotPermitted,
    NotSubscribed,
    QuotaExceeded,
    TopicNotFound,
    Unavailable,
)
from hubbub.gateways.admin.public_shapes import Open
from hubbub.gateways.admin.routes import Access, Routes
from hubbub.gateways.webhooks_api import WebhooksQuery
from hubbub.protocols.json.webhooks import WebhookOrder, WebhookView

_FINDING = (NotSubscribed, NotPermitted, Unavailable)


class PlainWebhooks(Open, frozen=True):
    """`next` is where the following page begins, if there is one."""

    webhooks: list[WebhookView]
    next: str | None


class Replayed(Open, frozen=True):
    """How many dead letters arrived this time, and how many did not."""

    delivered: int
    failed: int


PLAIN_WEBHOOK_ROUTES = Routes("/v1/hubs/{hub}/webhooks", "Webhooks", Access.HUB, _FINDING)
_describe = PLAIN_WEBHOOK_ROUTES.describe
_describe(
    "POST", "", "createWebhook", "Have a channel's messages sent to a URL",
    body=WebhookOrder, answers={201: WebhookView},
    errors=(TopicNotFound, NotPermitted, QuotaExceeded, Unavailable),
)  # fmt: skip
_describe(
    "GET", "", "listWebhooks",
    "List webhooks: one's own, or all of the hub for services and administrators",
    query=WebhooksQuery, answers={200: PlainWebhooks}, errors=(NotPermitted, Unavailable),
)  # fmt: skip
_describe(
    "GET", "/{webhook}", "readWebhook", "See how a webhook is doing", answers={200: WebhookView}
)  # fmt: skip
_describe("DELETE", "/{webhook}", "deleteWebhook", "End a webhook", answers={204: None})
_describe(
    "POST", "/{webhook}/replay", "replayWebhook",
    "Send what could not be delivered once more", answers={200: Replayed},
)  # fmt: skip
