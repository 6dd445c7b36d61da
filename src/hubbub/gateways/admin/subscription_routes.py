"""Routes of durable subscriptions, anybody's."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hubbub.domain.errors import NotFound, Unavailable
from hubbub.domain.fields import Name
from hubbub.domain.topics import SubscriptionInfo, SubscriptionKey
from hubbub.engine.administration import Administration
from hubbub.gateways.admin import shapes
from hubbub.gateways.admin.conversion import into
from hubbub.gateways.admin.paging import given, make_page
from hubbub.gateways.admin.public_shapes import Serial
from hubbub.gateways.admin.routes import Access, Answer, AnyRoute, Call, NoQuery, Route
from hubbub.gateways.admin.topic_routes import TopicOptions

_HUB = "/v1/admin/hubs/{hub}"
_ONE = f"{_HUB}/channels/{{channel}}/subscriptions/{{owner}}/{{subscription}}"
_BETWEEN = "\n"
"""Of the parts of a cursor; in no name."""


class SubscriptionQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    limit: shapes.Limit = 100
    cursor: shapes.Cursor = ""
    channel: Annotated[Name, Meta(description="Only those of this channel.")] | UnsetType = UNSET
    owner: (
        Annotated[str, Meta(max_length=300, description="Only this caller's, such as `u:ann`.")]
        | UnsetType
    ) = UNSET


class SubscriptionView(shapes.Shape, frozen=True):
    """Where a durable subscription stands. Everything up to `floor` is done; `head` is the newest
    message of the channel. `lag` counts what is not acknowledged, `handedOut` what of it a consumer
    holds, `missed` what a limit deleted before. `owner` is `u:` and a user id, or the level of
    callers who have none. `createdAt` is in ms since 1970."""

    channel: str
    owner: str
    name: str
    floor: Serial
    head: Serial
    epoch: str
    lag: int
    handed_out: int
    redeliveries: int
    dead_letters: int
    missed: int
    created_at: int
    options: TopicOptions


def _view(info: SubscriptionInfo) -> SubscriptionView:
    return SubscriptionView(
        channel=info.key.channel,
        owner=info.key.owner,
        name=info.key.name,
        floor=str(info.floor),
        head=str(info.head),
        epoch=info.epoch,
        lag=info.lag,
        handed_out=info.handed_out,
        redeliveries=info.redeliveries,
        dead_letters=info.dead_letters,
        missed=info.missed,
        created_at=info.created_at,
        options=into(TopicOptions, info.options),
    )


def _position(cursor: str) -> tuple[str, str, str] | None:
    """Any text is a place in the order."""
    if not cursor:
        return None
    channel, _, rest = cursor.partition(_BETWEEN)
    owner, _, name = rest.rpartition(_BETWEEN)
    return channel, owner, name


def _key(call: Call[NoQuery, None]) -> SubscriptionKey:
    path = call.path
    return SubscriptionKey(call.hub, path["channel"], path["owner"], path["subscription"])


async def list_subscriptions(admin: Administration, call: Call[SubscriptionQuery, None]) -> Answer:
    query = call.query
    page, following = await admin.subscriptions.page(
        call.hub, query.limit, _position(query.cursor), given(query.channel), given(query.owner)
    )
    cursor = _BETWEEN.join(following) if following is not None else None
    return Answer(make_page([_view(info) for info in page], cursor))


async def get_subscription(admin: Administration, call: Call[NoQuery, None]) -> Answer:
    return Answer(_view(await admin.subscriptions.get(_key(call))))


async def delete_subscription(admin: Administration, call: Call[NoQuery, None]) -> Answer:
    await admin.subscriptions.remove(call.actor, _key(call))
    return Answer(status=204)


SUBSCRIPTION_ROUTES: list[AnyRoute] = [
    Route(
        method="GET", path=f"{_HUB}/subscriptions", operation_id="listDurableSubscriptions",
        tag="Durable subscriptions", summary="List the durable subscriptions of a hub",
        access=Access.SERVICE, handler=list_subscriptions, query=SubscriptionQuery,
        answers={200: shapes.Page[SubscriptionView]}, errors=(NotFound, Unavailable),
    ),
    Route(
        method="GET", path=_ONE, operation_id="getDurableSubscription", tag="Durable subscriptions",
        summary="Read where a durable subscription stands", access=Access.SERVICE,
        handler=get_subscription, query=NoQuery, answers={200: SubscriptionView},
        errors=(NotFound, Unavailable),
    ),
    Route(
        method="DELETE", path=_ONE, operation_id="deleteDurableSubscription",
        tag="Durable subscriptions", summary="Remove a durable subscription for good",
        access=Access.SERVICE, handler=delete_subscription, query=NoQuery, answers={204: None},
        errors=(NotFound, Unavailable),
    ),
]  # fmt: skip
