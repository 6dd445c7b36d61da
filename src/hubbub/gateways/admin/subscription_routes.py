"""Routes of all users' durable subscriptions."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from hubbub.domain.errors import NotFound, Unavailable
from hubbub.domain.fields import Name
from hubbub.domain.topics import SubscriptionInfo, SubscriptionKey
from hubbub.engine.administration import Administration
from hubbub.gateways.admin import shapes
from hubbub.gateways.admin.paging import PageQuery, Search, counted
from hubbub.gateways.admin.shapes import into
from hubbub.gateways.calls import NoQuery, given
from hubbub.gateways.public_shapes import Serial, TopicOptions
from hubbub.gateways.routes import Access, AdminRequest, Routes

SUBSCRIPTION_ROUTES = Routes(
    "/v1/admin/hubs/{hub}", "Durable subscriptions", Access.SERVICE, (NotFound, Unavailable)
)
_ONE = "/channels/{channel}/subscriptions/{owner}/{subscription}"
_BETWEEN = "\n"
"""Separates the parts of a cursor; does not occur in names."""


class SubscriptionQuery(PageQuery, frozen=True, forbid_unknown_fields=True):
    channel: Annotated[Name, Meta(description="Only those of this channel.")] | UnsetType = UNSET
    owner: (
        Annotated[str, Meta(max_length=300, description="Only this caller's, such as `u:ann`.")]
        | UnsetType
    ) = UNSET
    q: Search = ""
    sort: Annotated[
        Literal["name", "-lag"],
        Meta(
            description="By channel, owner and name; or only those that are behind, the farthest "
            "first, as last counted."
        ),
    ] = "name"


class SubscriptionView(shapes.Shape, frozen=True):
    """The state of a durable subscription. Messages up to `floor` are done; `head` is the channel's
    newest message. `lag` counts unacknowledged messages, `handedOut` the leased ones, `missed`
    those that a limit deleted before. `owner` is `u:` and a user id, or the level of callers
    without one. `createdAt` is in ms since 1970."""

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
    """Parses a cursor; any text is valid."""
    if not cursor:
        return None
    channel, _, rest = cursor.partition(_BETWEEN)
    owner, _, name = rest.rpartition(_BETWEEN)
    return channel, owner, name


def _key(request: AdminRequest[NoQuery, None]) -> SubscriptionKey:
    path = request.path
    return SubscriptionKey(request.hub, path["channel"], path["owner"], path["subscription"])


@SUBSCRIPTION_ROUTES.serve("GET", "/subscriptions", name="listDurableSubscriptions")
async def list_subscriptions(
    admin: Administration, request: AdminRequest[SubscriptionQuery, None]
) -> shapes.CountedPage[SubscriptionView]:
    """List the durable subscriptions of a hub."""
    query = request.query
    channel, owner = given(query.channel), given(query.owner)
    if query.sort == "-lag":
        keys, next_lag, total = await admin.subscriptions.farthest(
            request.hub, query.rows, query.cursor, channel, owner, query.q
        )
        found = await admin.subscriptions.describe(keys)
        return counted([_view(info) for info in found], next_lag, total)
    page, following, total = await admin.subscriptions.page(
        request.hub, query.rows, _position(query.cursor), channel, owner, query.q
    )
    cursor = _BETWEEN.join(following) if following is not None else None
    return counted([_view(info) for info in page], cursor, total)


@SUBSCRIPTION_ROUTES.serve("GET", _ONE)
async def get_durable_subscription(
    admin: Administration, request: AdminRequest[NoQuery, None]
) -> SubscriptionView:
    """Read the state of a durable subscription."""
    return _view(await admin.subscriptions.get(_key(request)))


@SUBSCRIPTION_ROUTES.serve("DELETE", _ONE)
async def delete_durable_subscription(
    admin: Administration, request: AdminRequest[NoQuery, None]
) -> None:
    """Delete a durable subscription."""
    await admin.subscriptions.remove(request.actor, _key(request))
