"""Plain webhooks at `/v1/hubs/{hub}/webhooks`: creating, listing, reading and deleting."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from hubbub.domain.errors import (
    NotPermitted,
    NotSubscribed,
    QuotaExceeded,
    TopicNotFound,
    Unavailable,
)
from hubbub.domain.permissions import Identity
from hubbub.domain.topics import principal_of
from hubbub.domain.webhooks import Webhook
from hubbub.engine.node import Node
from hubbub.engine.webhooks.service import Webhooks
from hubbub.gateways.calls import HubRequest, NoQuery
from hubbub.gateways.credentials import require_known
from hubbub.gateways.routes import Access, Routes
from hubbub.protocols.json.webhooks import WebhookOrder, WebhookView, read_order, view_of

LARGEST_PAGE = 1000


class WebhooksQuery(msgspec.Struct, frozen=True):
    after: Annotated[str, Meta(description="Those behind this id.")] = ""
    limit: Annotated[int, Meta(ge=1, le=LARGEST_PAGE, description="Webhooks at most.")] = 100


class PlainWebhooks(msgspec.Struct, frozen=True):
    """`next` is the start of the following page, if there is one."""

    webhooks: list[WebhookView]
    next: str | None


class Replayed(msgspec.Struct, frozen=True):
    """How many dead letters arrived, and how many did not."""

    delivered: int
    failed: int


WEBHOOK_API = Routes(
    "/v1/hubs/{hub}/webhooks", "Webhooks", Access.HUB, (NotSubscribed, NotPermitted, Unavailable),
    caller=require_known,
)  # fmt: skip
_encode = msgspec.json.Encoder().encode


@WEBHOOK_API.serve(
    "POST", "", body=WebhookOrder, answers={201: WebhookView},
    errors=(TopicNotFound, NotPermitted, QuotaExceeded, Unavailable),
)  # fmt: skip
async def create_webhook(node: Node, request: HubRequest[NoQuery]) -> None:
    """Send a channel's messages to a URL."""
    wanted, start = read_order(request.request.body)
    webhook = await node.feature(Webhooks).subscribe(request.hub, request.identity, wanted, start)
    request.exchange.answer(201, _encode(view_of(webhook)))


@WEBHOOK_API.serve(
    "GET", "", answers={200: PlainWebhooks}, errors=(NotPermitted, Unavailable),
    summary="List webhooks: one's own, or all of the hub for services and administrators",
)  # fmt: skip
async def list_webhooks(node: Node, request: HubRequest[WebhooksQuery]) -> bytes:
    limit, after = request.query.limit, request.query.after
    found: list[Webhook] = []
    more = True
    while more and len(found) < limit:
        page = await node.feature(Webhooks).list(request.hub, after, LARGEST_PAGE)
        more = len(page) == LARGEST_PAGE
        after = page[-1].id if page else after
        found += [each for each in page if _reaches(request.identity, each)]
    more = more or len(found) > limit
    found = found[:limit]
    following = found[-1].id if more else None
    return _encode(PlainWebhooks([view_of(each) for each in found], following))


@WEBHOOK_API.serve("GET", "/{webhook}", answers={200: WebhookView})
async def read_webhook(node: Node, request: HubRequest[NoQuery]) -> bytes:
    """Read the state of a webhook."""
    found = await _find(node, request)
    return _encode(view_of(found, await node.feature(Webhooks).describe(request.hub, found.id)))


@WEBHOOK_API.serve("DELETE", "/{webhook}")
async def delete_webhook(node: Node, request: HubRequest[NoQuery]) -> None:
    """End a webhook.

    Owners end theirs also after they lost the permission to read: it is the way to stop it."""
    await node.feature(Webhooks).end(await _find(node, request))
    request.exchange.answer(204, b"")


@WEBHOOK_API.serve("POST", "/{webhook}/replay", answers={200: Replayed})
async def replay_webhook(node: Node, request: HubRequest[NoQuery]) -> bytes:
    """Send the dead letters of a webhook again."""
    found = await _find(node, request)
    return _encode(Replayed(*await node.feature(Webhooks).replay(request.hub, found.id)))


async def _find(node: Node, request: HubRequest[NoQuery]) -> Webhook:
    """Services and administrators may access all webhooks of their hub, others their own. Raises
    `NotSubscribed`, also for webhooks of others, so that their existence is not disclosed."""
    hub, webhook = request.hub, request.path["webhook"]
    found = await node.feature(Webhooks).find(hub, webhook)
    if not _reaches(request.identity, found):
        raise NotSubscribed(f"hub {hub.name!r} has no webhook {webhook[:64]!r} of yours")
    return found


def _reaches(identity: Identity, webhook: Webhook) -> bool:
    return identity.trusted or webhook.owner == principal_of(identity)
