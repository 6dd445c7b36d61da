"""Routes of webhooks and their topics, anybody's. Secrets and keys are in no answer."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hubbub.domain.errors import NotFound, Unavailable
from hubbub.domain.fields import Name
from hubbub.domain.webhooks import WebhookStatus
from hubbub.engine.administration import Administration
from hubbub.gateways.admin import shapes
from hubbub.gateways.admin.paging import PageQuery, make_page
from hubbub.gateways.admin.routes import Access, AdminRequest, Routes
from hubbub.gateways.admin.shapes import into
from hubbub.gateways.calls import NoQuery, given
from hubbub.protocols.json.webhooks import WebhookView, view_of

WEBHOOK_ROUTES = Routes("/v1/admin/hubs/{hub}", "Webhooks", Access.SERVICE, (NotFound, Unavailable))


class WebhookQuery(PageQuery, frozen=True, forbid_unknown_fields=True):
    channel: Annotated[Name, Meta(description="Only those of this channel.")] | UnsetType = UNSET
    status: Annotated[bool, Meta(description="With how each of them is doing.")] = False


class ReplayQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    after: Annotated[
        int, Meta(ge=0, le=10**15, description="`after` of the answer before; 0 at first.")
    ] = 0


class WebTopicView(shapes.Shape, frozen=True):
    """A topic that was registered, or that is fetched from `url`. `withKey`: who publishes must
    know a key. `pingedAt`: there is something new at `url` that was not fetched yet, after
    `fetchFailures` tries, the last of which failed with `fetchError`. Times are in ms since
    1970."""

    channel: str
    with_key: bool
    created_at: int
    url: str | None
    content_type: str | None
    pinged_at: int | None
    fetch_failures: int
    fetch_error: str | None


class ReplayView(shapes.Shape, frozen=True):
    """How many dead letters arrived this time, and how many did not. `more`: the time for one
    request was over before all were tried; send `after` to go on."""

    delivered: int
    failed: int
    more: bool
    after: int


@WEBHOOK_ROUTES.serve("GET", "/webhooks", name="listWebhooksAsAdmin")
async def list_webhooks(
    admin: Administration, request: AdminRequest[WebhookQuery, None]
) -> shapes.Page[WebhookView]:
    """List the webhooks of a hub."""
    query = request.query
    page, following = await admin.webhooks.page(
        request.hub, query.limit, query.cursor, given(query.channel)
    )
    statuses: list[WebhookStatus | None] = [None] * len(page)
    if query.status:
        statuses = await admin.webhooks.statuses(page)
    views = [view_of(each, status) for each, status in zip(page, statuses, strict=True)]
    return make_page(views, following)


@WEBHOOK_ROUTES.serve("GET", "/webhooks/{webhook}", name="getWebhookAsAdmin")
async def get_webhook(admin: Administration, request: AdminRequest[NoQuery, None]) -> WebhookView:
    """Read how a webhook is doing."""
    found = await admin.webhooks.get(request.hub, request.path["webhook"])
    (status,) = await admin.webhooks.statuses([found])
    return view_of(found, status)


@WEBHOOK_ROUTES.serve("DELETE", "/webhooks/{webhook}", name="deleteWebhookAsAdmin")
async def delete_webhook(admin: Administration, request: AdminRequest[NoQuery, None]) -> None:
    """Remove a webhook for good."""
    await admin.webhooks.remove(request.actor, request.hub, request.path["webhook"])


@WEBHOOK_ROUTES.serve("POST", "/webhooks/{webhook}/replay", name="replayWebhookAsAdmin")
async def replay_webhook(
    admin: Administration, request: AdminRequest[ReplayQuery, None]
) -> ReplayView:
    """Send what a webhook gave up once more, as much as a moment allows."""
    webhook, after = request.path["webhook"], request.query.after
    return into(ReplayView, await admin.webhooks.replay(request.actor, request.hub, webhook, after))


@WEBHOOK_ROUTES.serve("GET", "/web-topics")
async def list_web_topics(
    admin: Administration, request: AdminRequest[PageQuery, None]
) -> shapes.Page[WebTopicView]:
    """List the topics that were registered or are fetched."""
    query = request.query
    page, following = await admin.webhooks.topics(request.hub, query.limit, query.cursor)
    return make_page([into(WebTopicView, topic) for topic in page], following)


@WEBHOOK_ROUTES.serve("DELETE", "/web-topics/{channel}")
async def delete_web_topic(admin: Administration, request: AdminRequest[NoQuery, None]) -> None:
    """Remove a topic and its subscriptions of Light-PubSubHubbub; its channel stays."""
    await admin.webhooks.remove_topic(request.actor, request.hub, request.path["channel"])
