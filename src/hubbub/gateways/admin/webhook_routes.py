"""Routes of webhooks and their topics, anybody's. Secrets and keys are in no answer."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hubbub.domain.errors import NotFound, Unavailable
from hubbub.domain.fields import Name
from hubbub.domain.webhooks import WebhookStatus, WebTopic
from hubbub.engine.administration import Administration
from hubbub.gateways.admin import shapes
from hubbub.gateways.admin.conversion import into
from hubbub.gateways.admin.paging import given, make_page
from hubbub.gateways.admin.routes import Access, Answer, AnyRoute, Call, NoQuery, Route
from hubbub.protocols.json.webhooks import WebhookView, view_of

_HUB = "/v1/admin/hubs/{hub}"
_WEBHOOK = f"{_HUB}/webhooks/{{webhook}}"


class WebhookQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    limit: shapes.Limit = 100
    cursor: shapes.Cursor = ""
    channel: Annotated[Name, Meta(description="Only those of this channel.")] | UnsetType = UNSET
    status: Annotated[bool, Meta(description="With how each of them is doing.")] = False


class ReplayQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    after: Annotated[
        int, Meta(ge=0, le=10**15, description="`after` of the answer before; 0 at first.")
    ] = 0


class WebTopicQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    limit: shapes.Limit = 100
    cursor: shapes.Cursor = ""


class WebTopicView(shapes.Shape, frozen=True):
    """A topic that was registered, or that is fetched from `url`. `withKey`: who publishes must
    know a key. `createdAt` is in ms since 1970."""

    channel: str
    with_key: bool
    created_at: int
    url: str | None
    content_type: str | None


class ReplayView(shapes.Shape, frozen=True):
    """How many dead letters arrived this time, and how many did not. `more`: the time for one
    request was over before all were tried; send `after` to go on."""

    delivered: int
    failed: int
    more: bool
    after: int


def _topic_view(topic: WebTopic) -> WebTopicView:
    return WebTopicView(
        channel=topic.channel,
        with_key=topic.key_hash is not None,
        created_at=topic.created_at,
        url=topic.url,
        content_type=topic.content_type,
    )


async def list_webhooks(admin: Administration, call: Call[WebhookQuery, None]) -> Answer:
    query = call.query
    page, following = await admin.webhooks.page(
        call.hub, query.limit, query.cursor, given(query.channel)
    )
    statuses: list[WebhookStatus | None] = [None] * len(page)
    if query.status:
        statuses = await admin.webhooks.statuses(page)
    views = [view_of(each, status) for each, status in zip(page, statuses, strict=True)]
    return Answer(make_page(views, following))


async def get_webhook(admin: Administration, call: Call[NoQuery, None]) -> Answer:
    found = await admin.webhooks.get(call.hub, call.path["webhook"])
    (status,) = await admin.webhooks.statuses([found])
    return Answer(view_of(found, status))


async def delete_webhook(admin: Administration, call: Call[NoQuery, None]) -> Answer:
    await admin.webhooks.remove(call.actor, call.hub, call.path["webhook"])
    return Answer(status=204)


async def replay_webhook(admin: Administration, call: Call[ReplayQuery, None]) -> Answer:
    part = await admin.webhooks.replay(call.actor, call.hub, call.path["webhook"], call.query.after)
    return Answer(into(ReplayView, part))


async def list_web_topics(admin: Administration, call: Call[WebTopicQuery, None]) -> Answer:
    page, following = await admin.webhooks.topics(call.hub, call.query.limit, call.query.cursor)
    return Answer(make_page([_topic_view(topic) for topic in page], following))


async def delete_web_topic(admin: Administration, call: Call[NoQuery, None]) -> Answer:
    await admin.webhooks.remove_topic(call.actor, call.hub, call.path["channel"])
    return Answer(status=204)


WEBHOOK_ROUTES: list[AnyRoute] = [
    Route(
        method="GET", path=f"{_HUB}/webhooks", operation_id="listWebhooksAsAdmin", tag="Webhooks",
        summary="List the webhooks of a hub", access=Access.SERVICE, handler=list_webhooks,
        query=WebhookQuery, answers={200: shapes.Page[WebhookView]}, errors=(NotFound, Unavailable),
    ),
    Route(
        method="GET", path=_WEBHOOK, operation_id="getWebhookAsAdmin", tag="Webhooks",
        summary="Read how a webhook is doing", access=Access.SERVICE, handler=get_webhook,
        query=NoQuery, answers={200: WebhookView}, errors=(NotFound, Unavailable),
    ),
    Route(
        method="DELETE", path=_WEBHOOK, operation_id="deleteWebhookAsAdmin", tag="Webhooks",
        summary="Remove a webhook for good", access=Access.SERVICE, handler=delete_webhook,
        query=NoQuery, answers={204: None}, errors=(NotFound, Unavailable),
    ),
    Route(
        method="POST", path=f"{_WEBHOOK}/replay", operation_id="replayWebhookAsAdmin",
        tag="Webhooks", summary="Send what a webhook gave up once more, as much as a moment allows",
        access=Access.SERVICE, handler=replay_webhook, query=ReplayQuery,
        answers={200: ReplayView}, errors=(NotFound, Unavailable),
    ),
    Route(
        method="GET", path=f"{_HUB}/web-topics", operation_id="listWebTopics", tag="Webhooks",
        summary="List the topics that were registered or are fetched", access=Access.SERVICE,
        handler=list_web_topics, query=WebTopicQuery, answers={200: shapes.Page[WebTopicView]},
        errors=(NotFound, Unavailable),
    ),
    Route(
        method="DELETE", path=f"{_HUB}/web-topics/{{channel}}", operation_id="deleteWebTopic",
        tag="Webhooks",
        summary="Remove a topic and its subscriptions of Light-PubSubHubbub; its channel stays",
        access=Access.SERVICE, handler=delete_web_topic, query=NoQuery, answers={204: None},
        errors=(NotFound, Unavailable),
    ),
]  # fmt: skip
