"""Routes of plain webhooks, for the description; `gateways.webhooks_api` serves them."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from hubbub.domain.callbacks import MAX_URL_CHARS
from hubbub.domain.errors import (
    NotPermitted,
    NotSubscribed,
    QuotaExceeded,
    TopicNotFound,
    Unavailable,
)
from hubbub.domain.fields import Name
from hubbub.domain.webhooks import MAX_SECRET_BYTES, Algorithm
from hubbub.gateways.admin.public_shapes import Open
from hubbub.gateways.admin.routes import Access, Routes
from hubbub.gateways.admin.shapes import Shape
from hubbub.protocols.json.webhooks import WebhookView

_FINDING = (NotSubscribed, NotPermitted, Unavailable)


class WebhooksQuery(msgspec.Struct, frozen=True):
    after: Annotated[str, Meta(description="Those behind this id.")] = ""
    limit: Annotated[int, Meta(ge=1, le=1000, description="Webhooks at most.")] = 100


class WebhookOrder(Shape, frozen=True):
    """Who gives the same channel and callback again changes the webhook; it keeps its place."""

    channel: Name
    callback: Annotated[
        str, Meta(max_length=MAX_URL_CHARS, description="Where the messages go: http or https.")
    ]
    secret: (
        Annotated[
            str, Meta(min_length=1, max_length=MAX_SECRET_BYTES, description="Signs what is sent.")
        ]
        | None
    ) = None
    algorithm: Annotated[Algorithm, Meta(description="Of the signature.")] = "sha256"
    key: (
        Annotated[str, Meta(description="Encrypts what is sent: 16 to 64 bytes in base64url.")]
        | None
    ) = None
    lease_seconds: (
        Annotated[
            float, Meta(ge=0, le=10**9, description="It ends by itself; without one it does not.")
        ]
        | None
    ) = None
    start: Annotated[
        str,
        Meta(
            pattern="^(new|first|[0-9]{1,18})$",
            description="`new`, `first`, or the serial behind which a new one begins.",
        ),
    ] = "new"


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
