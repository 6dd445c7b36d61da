"""Routes of peers, collectives, adapters and messages to peers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hubbub.domain.communication.information import MessageInfo
from hubbub.domain.communication.messages import (
    MAX_TEXT,
)
from hubbub.domain.communication.peers import CollectiveInfo, PeerId, PeerInfo
from hubbub.domain.communication.requests import AdapterStatus
from hubbub.domain.communication.routing import RoutingRule
from hubbub.domain.communication.steps import DECIDED, HELD
from hubbub.domain.communication.wire import MessageBody, to_wire
from hubbub.domain.errors import (
    BadRequest,
    Conflict,
    NotFound,
    NotPermitted,
    QuotaExceeded,
    Unavailable,
)
from hubbub.domain.webhooks import Webhook, WebhookStatus
from hubbub.engine.administration import Administration
from hubbub.engine.communication.log_messages import from_logged
from hubbub.engine.communication.service import Communication
from hubbub.engine.communication.subscriptions import own_peer
from hubbub.engine.hub import Hub
from hubbub.gateways.admin import shapes
from hubbub.gateways.admin.paging import PageQuery, cut, make_page
from hubbub.gateways.calls import NoQuery, given
from hubbub.gateways.routes import Access, AdminRequest, Routes
from hubbub.ports.storage.communication import LogQuery

COMMUNICATION_ROUTES = Routes(
    "/v1/admin/hubs/{hub}", "Communication", Access.SERVICE, (NotFound, Unavailable)
)
OWN_COMMUNICATION_ROUTES = Routes(
    "/v1/hubs/{hub}", "Communication", Access.CLIENT, (NotFound, Unavailable)
)
_Text = Annotated[str, Meta(min_length=1, max_length=256)]


class PeerView(shapes.Shape, frozen=True):
    """A peer, and how it wants to be reached."""

    id: PeerId
    peer: PeerInfo


class PeerBatch(shapes.Shape, frozen=True):
    """Peers to create or replace."""

    peers: Annotated[list[PeerView], Meta(min_length=1, max_length=1000)]


class FollowQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    start: Annotated[
        Literal["new", "first"],
        Meta(description="Where a new one begins; `first`: with all that is still stored."),
    ] = "new"


class PeerSubscriptionView(shapes.Shape, frozen=True):
    """A channel that a peer follows. `lag` counts the messages without a verdict, `delivered` and
    `failed` the verdicts since the channel's owner began; `lastError` is the reason of the last
    one, if it failed. Times are in ms since 1970."""

    channel: str
    created_at: int
    lag: int
    delivered: int
    failed: int
    last_error: str | None = None
    last_delivered_at: int | None = None


class CollectiveView(shapes.Shape, frozen=True):
    """A collective without its members."""

    id: str
    policy: str


class RouteAdded(shapes.Shape, frozen=True):
    """The name of the new rule."""

    id: str


class LoggedView(shapes.Shape, frozen=True):
    """A message of the log. `state`: `decided`, `open`, or `held` until its sender logs in."""

    message: MessageBody
    at: int
    state: str


class DeadDeliveryView(shapes.Shape, frozen=True):
    """A copy that could not be delivered."""

    key: str
    message_id: str
    peer: str
    adapter: str
    parameters: list[str]
    reason: str
    at: int


class ReplayOrder(shapes.Shape, frozen=True):
    """Selects dead deliveries to replay. Without keys, the oldest 500 are replayed."""

    keys: Annotated[tuple[str, ...], Meta(max_length=500)] = ()


class ReplayedDeliveries(shapes.Shape, frozen=True):
    """How many are tried again."""

    tried: int


class DiscardOrder(shapes.Shape, frozen=True):
    """The keys of the dead deliveries to delete."""

    keys: Annotated[tuple[str, ...], Meta(min_length=1, max_length=500)]


class DiscardedDeliveries(shapes.Shape, frozen=True):
    """How many are deleted."""

    discarded: int


class LogListQuery(PageQuery, frozen=True, forbid_unknown_fields=True):
    cursor: Annotated[
        str,
        Meta(description="`next` of the page before.", max_length=18, pattern="^[0-9]*$"),
    ] = ""
    id: Annotated[_Text, Meta(description="Only the message with this id.")] | UnsetType = UNSET
    type: Annotated[_Text, Meta(description="Only messages of this type.")] | UnsetType = UNSET
    subtype: Annotated[_Text, Meta(description="Only messages of this subtype.")] | UnsetType = (
        UNSET
    )
    sender: Annotated[_Text, Meta(description="Only what this sender sent.")] | UnsetType = UNSET
    receiver: (
        Annotated[_Text, Meta(description="Only what was sent to this receiver.")] | UnsetType
    ) = UNSET
    conversation: (
        Annotated[_Text, Meta(description="Only messages of this conversation.")] | UnsetType
    ) = UNSET
    since: Annotated[int, Meta(ge=0, le=2**53, description="ms since 1970.")] | UnsetType = UNSET
    until: Annotated[int, Meta(ge=0, le=2**53, description="ms since 1970.")] | UnsetType = UNSET


class InfoQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: Annotated[str, Meta(max_length=100, description="Together with `subtype`.")] = ""
    subtype: Annotated[str, Meta(max_length=100, description="Together with `type`.")] = ""
    id: Annotated[str, Meta(max_length=MAX_TEXT, description="Of a message of the log.")] = ""


class DeadDeliveryQuery(PageQuery, frozen=True, forbid_unknown_fields=True):
    cursor: Annotated[
        str,
        Meta(
            description="`next` of the page before.",
            max_length=28,
            pattern=r"^([0-9]{1,15}\.[0-9]{1,9})?$",
        ),
    ] = ""


serve = COMMUNICATION_ROUTES.serve


def _hub(admin: Administration, request: AdminRequest[Any, Any]) -> Hub:
    return admin.node.hub(request.hub)


def _followed(subscription: Webhook, status: WebhookStatus) -> PeerSubscriptionView:
    return PeerSubscriptionView(
        channel=subscription.channel,
        created_at=subscription.created_at,
        lag=status.lag,
        delivered=status.delivered,
        failed=status.failures,
        last_error=status.last_error,
        last_delivered_at=status.last_delivered_at,
    )


@serve("GET", "/peers", payloads=True)
async def list_peers(
    admin: Administration, request: AdminRequest[PageQuery, None]
) -> shapes.Page[PeerView]:
    """List the peers of a hub."""
    query = request.query
    found = await admin.node.feature(Communication).peers(
        _hub(admin, request), query.cursor, query.limit + 1
    )
    page, following = cut(found, query.limit, lambda each: each[0])
    return make_page([PeerView(id=peer, peer=info) for peer, info in page], following)


@serve("POST", "/peers", errors=(QuotaExceeded,), max_body_bytes=4 << 20)
async def put_peers(admin: Administration, request: AdminRequest[NoQuery, PeerBatch]) -> None:
    """Create or replace up to 1,000 peers."""
    peers = [(each.id, each.peer) for each in request.body.peers]
    await admin.communication.save_peers(request.actor, request.hub, peers)


@serve("GET", "/peers/{peer}", payloads=True)
async def get_peer(admin: Administration, request: AdminRequest[NoQuery, None]) -> PeerInfo:
    """Read a peer."""
    return await admin.node.feature(Communication).peer(_hub(admin, request), request.path["peer"])


@serve("PUT", "/peers/{peer}", errors=(QuotaExceeded,))
async def put_peer(admin: Administration, request: AdminRequest[NoQuery, PeerInfo]) -> PeerInfo:
    """Create or replace a peer."""
    peers = [(request.path["peer"], request.body)]
    await admin.communication.save_peers(request.actor, request.hub, peers)
    return request.body


@serve("DELETE", "/peers/{peer}")
async def delete_peer(admin: Administration, request: AdminRequest[NoQuery, None]) -> None:
    """Delete a peer; it leaves all collectives."""
    await admin.communication.delete_peer(request.actor, request.hub, request.path["peer"])


def _peer(request: AdminRequest[Any, Any]) -> str | None:
    """The peer in the path; None: the caller."""
    return request.path.get("peer")


async def list_subscriptions(
    admin: Administration, request: AdminRequest[PageQuery, None]
) -> shapes.Page[PeerSubscriptionView]:
    query, peer = request.query, _peer(request) or own_peer(request.actor.identity)
    found, following = await admin.communication.subscriptions(
        request.hub, peer, query.cursor, query.limit
    )
    return make_page([_followed(*each) for each in found], following)


async def put_subscription(
    admin: Administration, request: AdminRequest[FollowQuery, None]
) -> PeerSubscriptionView:
    which = (_peer(request), request.path["channel"], request.query.start)
    return _followed(*await admin.communication.follow(request.actor, request.hub, *which))


async def delete_subscription(admin: Administration, request: AdminRequest[NoQuery, None]) -> None:
    which = (_peer(request), request.path["channel"])
    await admin.communication.unfollow(request.actor, request.hub, *which)


_FOLLOWING = (BadRequest, Conflict, NotPermitted, QuotaExceeded)


def _add_following(routes: Routes, path: str, whose: str, who: str) -> None:
    routes.serve(
        "GET",
        path,
        name=f"list{whose}Subscriptions",
        summary=f"List the channels that {who} follows",
    )(list_subscriptions)
    routes.serve(
        "PUT", path + "/{channel}", name=f"put{whose}Subscription", errors=_FOLLOWING,
        summary=f"Have {who} follow a channel that stores: its messages come by the peer's own "
        "addresses and policies",
    )(put_subscription)  # fmt: skip
    routes.serve(
        "DELETE", path + "/{channel}", name=f"delete{whose}Subscription",
        summary=f"Have {who} follow a channel no longer",
    )(delete_subscription)  # fmt: skip


_add_following(COMMUNICATION_ROUTES, "/peers/{peer}/subscriptions", "Peer", "a peer")
_add_following(
    OWN_COMMUNICATION_ROUTES, "/peer-subscriptions", "OwnPeer", "the caller, who is a peer,"
)


@serve("GET", "/collectives")
async def list_collectives(
    admin: Administration, request: AdminRequest[PageQuery, None]
) -> shapes.Page[CollectiveView]:
    """List the collectives of a hub."""
    query = request.query
    found = await admin.node.feature(Communication).collectives(
        _hub(admin, request), query.cursor, query.limit + 1
    )
    page, following = cut(found, query.limit, lambda each: each[0])
    return make_page([CollectiveView(id=name, policy=policy) for name, policy in page], following)


@serve("GET", "/collectives/{collective}", payloads=True)
async def get_collective(
    admin: Administration, request: AdminRequest[NoQuery, None]
) -> CollectiveInfo:
    """Read a collective with its members."""
    return await admin.node.feature(Communication).collective(
        _hub(admin, request), request.path["collective"]
    )


@serve("PUT", "/collectives/{collective}", errors=(QuotaExceeded,), max_body_bytes=4 << 20)
async def put_collective(
    admin: Administration, request: AdminRequest[NoQuery, CollectiveInfo]
) -> CollectiveInfo:
    """Create or replace a collective with its members."""
    name = request.path["collective"]
    await admin.communication.save_collective(request.actor, request.hub, name, request.body)
    return await admin.node.feature(Communication).collective(_hub(admin, request), name)


@serve("DELETE", "/collectives/{collective}")
async def delete_collective(admin: Administration, request: AdminRequest[NoQuery, None]) -> None:
    """Delete a collective; its members stay peers."""
    name = request.path["collective"]
    await admin.communication.delete_collective(request.actor, request.hub, name)


@serve("PUT", "/collectives/{collective}/members/{peer}", errors=(QuotaExceeded,))
async def put_member(admin: Administration, request: AdminRequest[NoQuery, None]) -> None:
    """Add a member to a collective."""
    which = (request.path["collective"], request.path["peer"])
    await admin.communication.add_member(request.actor, request.hub, *which)


@serve("DELETE", "/collectives/{collective}/members/{peer}")
async def delete_member(admin: Administration, request: AdminRequest[NoQuery, None]) -> None:
    """Remove a member from a collective."""
    which = (request.path["collective"], request.path["peer"])
    await admin.communication.delete_member(request.actor, request.hub, *which)


@serve("POST", "/routes")
async def add_route(
    admin: Administration, request: AdminRequest[NoQuery, RoutingRule]
) -> RouteAdded:
    """Add a routing rule under a new name."""
    added = await admin.communication.add_route(request.actor, request.hub, request.body)
    return RouteAdded(id=added)


@serve("GET", "/adapter-status")
async def list_adapter_statuses(
    admin: Administration, request: AdminRequest[NoQuery, None]
) -> shapes.Page[AdapterStatus]:
    """How the adapters of a hub do: queue lengths, instances, last errors."""
    found = await admin.communication.statuses(request.hub)
    return make_page([found[name] for name in sorted(found)], None)


@serve("POST", "/adapters/{adapter}/pull", errors=(Conflict,))
async def pull_adapter(admin: Administration, request: AdminRequest[NoQuery, None]) -> None:
    """Have an adapter look for messages now."""
    await admin.communication.pull(request.actor, request.hub, request.path["adapter"])


@serve("GET", "/messages", name="queryMessages", errors=(BadRequest,), payloads=True)
async def query_messages(
    admin: Administration, request: AdminRequest[LogListQuery, None]
) -> shapes.Page[LoggedView]:
    """Search all messages to peers, the newest first. A page may be empty though others follow."""
    query = request.query
    criteria = {
        name: getattr(query, name)
        for name in ("id", "type", "subtype", "sender", "receiver", "conversation")
        if getattr(query, name) is not UNSET
    }
    wanted = LogQuery(request.hub, since=given(query.since), until=given(query.until), **criteria)
    if query.cursor and not query.cursor.isdecimal():
        raise BadRequest(f"cursor is {query.cursor[:40]!r}; give `next` of the page before")
    before = int(query.cursor) if query.cursor else None
    page = await admin.node.feature(Communication).query(
        _hub(admin, request), wanted, before, query.limit
    )
    items = [
        LoggedView(
            message=to_wire(from_logged(each.message)),
            at=each.message.published_at,
            state={DECIDED: "decided", HELD: "held"}.get(each.state, "open"),
        )
        for each in page.messages
    ]
    return make_page(items, None if page.before is None else str(page.before))


@serve("GET", "/message-info-about")
async def get_message_info_about(
    admin: Administration, request: AdminRequest[InfoQuery, None]
) -> MessageInfo:
    """Read what messages of a type and subtype mean, or the message with an id."""
    query = request.query
    which = (query.type, query.subtype, query.id)
    return await admin.node.feature(Communication).message_info(_hub(admin, request), *which)


@serve("GET", "/dead-deliveries", errors=(BadRequest,), payloads=True)
async def list_dead_deliveries(
    admin: Administration, request: AdminRequest[DeadDeliveryQuery, None]
) -> shapes.Page[DeadDeliveryView]:
    """List copies of messages that could not be delivered, the oldest first."""
    query = request.query
    after = (0, -1)
    if query.cursor:
        serial, _, ordinal = query.cursor.partition(".")
        if not (serial.isdecimal() and ordinal.isdecimal()):
            raise BadRequest(f"cursor is {query.cursor[:40]!r}; give `next` of the page before")
        after = (int(serial), int(ordinal))
    found = await admin.node.feature(Communication).dead_letters(
        _hub(admin, request), after, query.limit + 1
    )
    page, following = cut(found, query.limit, lambda row: f"{row.serial}.{row.ordinal}")
    items = [
        DeadDeliveryView(
            key=row.key,
            message_id=row.message_id,
            peer=row.peer,
            adapter=row.adapter,
            parameters=list(row.parameters),
            reason=row.reason,
            at=row.at,
        )
        for row in page
    ]
    return make_page(items, following)


@serve("POST", "/dead-deliveries/replay")
async def replay_dead_deliveries(
    admin: Administration, request: AdminRequest[NoQuery, ReplayOrder]
) -> ReplayedDeliveries:
    """Try dead deliveries once more."""
    tried = await admin.communication.replay(request.actor, request.hub, request.body.keys)
    return ReplayedDeliveries(tried=tried)


@serve("POST", "/dead-deliveries/discard")
async def discard_dead_deliveries(
    admin: Administration, request: AdminRequest[NoQuery, DiscardOrder]
) -> DiscardedDeliveries:
    """Delete dead deliveries of messages that are decided."""
    discarded = await admin.communication.discard(request.actor, request.hub, request.body.keys)
    return DiscardedDeliveries(discarded=discarded)
