"""Routes of channels, messages, sessions and figures."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hubbub.domain.errors import (
    Conflict,
    NotFound,
    NotPermitted,
    QuotaExceeded,
    Unavailable,
    VersionMismatch,
)
from hubbub.domain.fields import Name
from hubbub.domain.names import check_name
from hubbub.domain.notices import PublishResult
from hubbub.domain.permissions import Level
from hubbub.domain.rules import ChannelSettings
from hubbub.engine.access.revocations import ANY_HUB
from hubbub.engine.administration import Administration, Versioned
from hubbub.engine.administration.channel_list import ListedChannel
from hubbub.engine.administration.inspection import ChannelInspection
from hubbub.engine.administration.lists import (
    ChannelSort,
    ListChannels,
    ListSessions,
    SessionSort,
)
from hubbub.engine.administration.series import Series, Span
from hubbub.engine.administration.tracing import MOST_EVENTS, MOST_SECONDS, Trace
from hubbub.engine.administration.views import ConfiguredKey, Counters, SessionView, Topology
from hubbub.gateways import public_shapes
from hubbub.gateways.admin import shapes
from hubbub.gateways.admin.paging import (
    ListQuery,
    PageQuery,
    Search,
    counted,
)
from hubbub.gateways.calls import NoQuery, given
from hubbub.gateways.http import error_shape
from hubbub.gateways.routes import Access, AdminRequest, Routes
from hubbub.protocols.json.http import presence_json, publish_items

CHANNEL_ROUTES = Routes("/v1/admin/hubs/{hub}", "Channels", Access.SERVICE, (NotFound,))
SESSION_ROUTES = Routes("/v1/admin/hubs/{hub}/sessions", "Sessions", Access.SERVICE, (NotFound,))
FIGURE_ROUTES = Routes("/v1/admin", "Figures", Access.ADMIN)
_SETTINGS = "/channels/{channel}/settings"
_METADATA = "/channels/{channel}/metadata"
_MOST_METADATA_BYTES = 500
"""Maximum size of metadata in a row of a list."""


class ChannelQuery(ListQuery, frozen=True, forbid_unknown_fields=True):
    live: Annotated[bool, Meta(description="Only channels with sessions.")] = False
    q: Search = ""
    sort: Annotated[
        ChannelSort, Meta(description="By name, or those with the most sessions first.")
    ] = "name"


class SessionQuery(PageQuery, frozen=True, forbid_unknown_fields=True):
    q: Annotated[
        str,
        Meta(
            max_length=255,
            description="Only where the user's id holds this, or the session's id begins with it;"
            " at most 2,000 of each node.",
        ),
    ] = ""
    sort: Annotated[SessionSort, Meta(description="By id, or the newest first.")] = "id"
    user: Annotated[str, Meta(max_length=255, description="Only this user's.")] | UnsetType = UNSET
    channel: Annotated[Name, Meta(description="Only those that follow it.")] | UnsetType = UNSET


class HubTopologyQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    channels: Annotated[
        int, Meta(ge=0, le=1000, description="Channels to name per hub, the busiest first.")
    ] = 20
    sessions: Annotated[
        int, Meta(ge=0, le=50, description="Sessions to name of each of these channels.")
    ] = 0


class TopologyQuery(HubTopologyQuery, frozen=True, forbid_unknown_fields=True):
    hub: Annotated[Name, Meta(description="Only this hub.")] | UnsetType = UNSET


# -- channels -------------------------------------------------------------------------------------


@CHANNEL_ROUTES.serve("GET", "/channels", errors=(NotFound, Unavailable))
async def list_channels(
    admin: Administration, request: AdminRequest[ChannelQuery, None]
) -> shapes.CountedPage[shapes.ChannelView]:
    """List channels that have settings, sessions or stored messages."""
    query = request.query
    found, following, total = await admin.channel_list.page(
        ListChannels(request.hub, query.rows, query.cursor, query.prefix, query.q, query.sort),
        query.live,
        documents=request.actor.identity.level is not Level.VIEWER,
    )
    settings = await admin.channels.named(request.hub, [each.name for each in found])
    views = [_channel_view(each, settings.get(each.name)) for each in found]
    return counted(views, following, total)


def _channel_view(
    listed: ListedChannel, found: Versioned[ChannelSettings] | None
) -> shapes.ChannelView:
    stored = listed.stored
    settings = found.value if found is not None else ChannelSettings()
    large = len(msgspec.json.encode(settings.metadata)) > _MOST_METADATA_BYTES
    return shapes.ChannelView(
        channel=listed.name,
        sessions=listed.sessions,
        version=found.version if found is not None else 0,
        rules=settings.rules,
        metadata={} if large else settings.metadata,
        metadata_left_out=large,
        stored=stored.head - stored.first + 1 if stored is not None else 0,
        stored_bytes=stored.stored_bytes if stored is not None else 0,
        stored_at=stored.last_at if stored is not None else None,
    )


def _rules(found: Versioned[ChannelSettings]) -> Versioned[shapes.ChannelSettings]:
    return found.map(lambda settings: shapes.ChannelSettings(rules=settings.rules))


def _metadata(found: Versioned[ChannelSettings]) -> Versioned[shapes.Metadata]:
    return found.map(lambda settings: shapes.Metadata(metadata=settings.metadata))


@CHANNEL_ROUTES.serve("GET", _SETTINGS)
async def get_channel_settings(
    admin: Administration, request: AdminRequest[NoQuery, None]
) -> Versioned[shapes.ChannelSettings]:
    """Read the settings of a channel."""
    return _rules(await admin.channels.get(request.hub, request.path["channel"]))


class InspectionQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    payload: Annotated[
        bool, Meta(description="With the payload of the retained message; not for viewers.")
    ] = False


@CHANNEL_ROUTES.serve("GET", "/channels/{channel}", errors=(NotFound, Unavailable, NotPermitted))
async def get_channel(
    admin: Administration, request: AdminRequest[InspectionQuery, None]
) -> ChannelInspection:
    """Read a channel's effective rules, where they come from, and what is stored."""
    payload = request.query.payload
    if payload and request.actor.identity.level is Level.VIEWER:
        raise NotPermitted("payloads are not for viewers; leave out `payload`")
    return await admin.inspector.channel(
        request.actor, request.hub, request.path["channel"], payload
    )


@CHANNEL_ROUTES.serve("PUT", _SETTINGS, errors=(NotFound, Conflict, VersionMismatch))
async def put_channel_settings(
    admin: Administration, request: AdminRequest[NoQuery, shapes.ChannelSettings]
) -> Versioned[shapes.ChannelSettings]:
    """Replace the settings of a channel; its metadata stays."""
    channel, rules = request.path["channel"], request.body.rules
    return _rules(
        await admin.channels.put_rules(
            request.actor, request.hub, channel, rules, request.condition
        )
    )


@CHANNEL_ROUTES.serve("DELETE", _SETTINGS, versioned=True, errors=(NotFound, VersionMismatch))
async def delete_channel_settings(
    admin: Administration, request: AdminRequest[NoQuery, None]
) -> None:
    """Forget the settings and metadata of a channel."""
    channel = request.path["channel"]
    await admin.channels.delete(request.actor, request.hub, channel, request.condition)


@CHANNEL_ROUTES.serve("GET", _METADATA)
async def get_channel_metadata(
    admin: Administration, request: AdminRequest[NoQuery, None]
) -> Versioned[shapes.Metadata]:
    """Read the metadata of a channel."""
    return _metadata(await admin.channels.get(request.hub, request.path["channel"]))


@CHANNEL_ROUTES.serve("PUT", _METADATA, errors=(NotFound, VersionMismatch))
async def put_channel_metadata(
    admin: Administration, request: AdminRequest[NoQuery, shapes.Metadata]
) -> Versioned[shapes.Metadata]:
    """Replace the metadata of a channel; its settings stay."""
    channel, metadata = request.path["channel"], request.body.metadata
    return _metadata(
        await admin.channels.put_metadata(
            request.actor, request.hub, channel, metadata, request.condition
        )
    )


@CHANNEL_ROUTES.serve(
    "GET",
    "/channels/{channel}/presence",
    answers={200: public_shapes.PresenceList},
    payloads=True,
)
async def get_channel_presence(
    admin: Administration, request: AdminRequest[NoQuery, None]
) -> bytes:
    """See who is in a channel."""
    channel = check_name(request.path["channel"], "channel")
    members = await admin.live.presence(request.actor.identity, request.hub, channel)
    return presence_json(channel, members)


@CHANNEL_ROUTES.serve(
    "POST", "/messages", name="publishBatchAsAdmin", body=public_shapes.PublishBatch,
    answers={200: public_shapes.PublishResults}, max_body_bytes=64 * 1024 * 1024,
    reads_itself=True,
)  # fmt: skip
async def publish_batch(
    admin: Administration, request: AdminRequest[NoQuery, bytes]
) -> dict[str, Any]:
    """Publish messages, with a result for each."""
    items = publish_items(request.raw)
    results = await admin.live.publish(request.actor.identity, request.hub, items, "http")
    return {"published": [_result(result) for result in results]}


def _result(result: PublishResult) -> dict[str, Any]:
    if result.error is not None:
        return {"success": False, "error": error_shape(result.error)}
    shown: dict[str, Any] = {"success": True}
    if result.message_id:
        shown["msgID"] = result.message_id
    if result.serial:
        shown["channelSerial"] = str(result.serial)
    if result.duplicate:
        shown["duplicate"] = True
    return shown


# -- sessions -------------------------------------------------------------------------------------


@SESSION_ROUTES.serve("GET", "")
async def list_sessions(
    admin: Administration, request: AdminRequest[SessionQuery, None]
) -> shapes.CountedPage[SessionView]:
    """List open sessions."""
    query = request.query
    question = ListSessions(
        request.hub,
        query.rows,
        query.cursor,
        given(query.user),
        given(query.channel),
        query.q,
        query.sort,
    )
    return counted(*await admin.live.sessions(question))


@SESSION_ROUTES.serve("GET", "/{session}")
async def get_session(admin: Administration, request: AdminRequest[NoQuery, None]) -> SessionView:
    """Read an open session."""
    return await admin.live.session(request.hub, request.path["session"])


@SESSION_ROUTES.serve("DELETE", "/{session}")
async def disconnect_session(admin: Administration, request: AdminRequest[NoQuery, None]) -> None:
    """End a session; it cannot be restored."""
    await admin.live.disconnect(request.actor, request.hub, request.path["session"])


class TraceOrder(shapes.Shape, frozen=True):
    """The channel or the session to trace, and the duration."""

    channel: Name | None = None
    session: Annotated[str, Meta(min_length=1, max_length=64)] | None = None
    seconds: Annotated[float, Meta(ge=0.1, le=MOST_SECONDS)] = 10.0
    limit: Annotated[int, Meta(ge=1, le=MOST_EVENTS)] = MOST_EVENTS


@CHANNEL_ROUTES.serve(
    "POST", "/traces", name="trace", tag="Sessions", answers={200: Trace},
    errors=(NotFound, NotPermitted, Unavailable, QuotaExceeded),
)  # fmt: skip
async def trace(admin: Administration, request: AdminRequest[NoQuery, TraceOrder]) -> Trace:
    """Trace a channel, or the channels of a session, for a short time.

    The response comes after that time, or when the maximum number of events is reached."""
    order = request.body
    return await admin.tracer.trace(
        request.actor, request.hub, order.channel, order.session, order.seconds, order.limit
    )


# -- figures --------------------------------------------------------------------------------------


@FIGURE_ROUTES.serve("GET", "/topology")
async def get_topology(
    admin: Administration, request: AdminRequest[TopologyQuery, None]
) -> Topology:
    """Read nodes, hubs and channels with the number of their sessions."""
    hub = given(request.query.hub)
    if hub is not None:
        check_name(hub, "hub")
    return await admin.live.topology(hub, request.query.channels, request.query.sessions)


@FIGURE_ROUTES.serve("GET", "/hubs/{hub}/topology", access=Access.SERVICE, errors=(NotFound,))
async def get_hub_topology(
    admin: Administration, request: AdminRequest[HubTopologyQuery, None]
) -> Topology:
    """Read the nodes that serve a hub, and its channels with the number of their sessions."""
    query = request.query
    return await admin.live.hub_topology(request.hub, query.channels, query.sessions)


class SeriesQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    span: Annotated[
        Span, Meta(description="The last quarter of an hour by the second, or the last day.")
    ] = "15m"


class AllSeriesQuery(SeriesQuery, frozen=True, forbid_unknown_fields=True):
    hub: Annotated[Name, Meta(description="Only this hub.")] | UnsetType = UNSET


class SeriesFound(shapes.Shape, frozen=True):
    """One series for each node. `silent` names the nodes that did not answer in time."""

    series: list[Series]
    silent: list[str]


@FIGURE_ROUTES.serve("GET", "/series")
async def get_series(
    admin: Administration, request: AdminRequest[AllSeriesQuery, None]
) -> SeriesFound:
    """Read figures over time, of all hubs together or of one."""
    hub = given(request.query.hub) or ANY_HUB
    series, silent = await admin.live.series(hub, request.query.span)
    return SeriesFound(series=series, silent=silent)


@FIGURE_ROUTES.serve("GET", "/hubs/{hub}/series", access=Access.SERVICE, errors=(NotFound,))
async def get_hub_series(
    admin: Administration, request: AdminRequest[SeriesQuery, None]
) -> SeriesFound:
    """Read figures of a hub over time; hubs with much traffic have them."""
    series, silent = await admin.live.series(request.hub, request.query.span)
    return SeriesFound(series=series, silent=silent)


class Configuration(shapes.Shape, frozen=True):
    """The configuration of the responding node."""

    settings: list[ConfiguredKey]


@FIGURE_ROUTES.serve("GET", "/configuration")
async def get_configuration(
    admin: Administration, request: AdminRequest[NoQuery, None]
) -> Configuration:
    """Read the configuration of the node that answers, without secrets."""
    return Configuration(settings=list(admin.configuration))


class Stopping(shapes.Shape, frozen=True):
    """The node that stops; of several workers on its machine, all stop."""

    node: str


@FIGURE_ROUTES.serve("POST", "/shutdown", tag="Server", answers={202: Stopping})
async def shut_down(admin: Administration, request: AdminRequest[NoQuery, None]) -> Stopping:
    """End the server that answers, as SIGTERM does: clients are told to reconnect, and what was
    accepted is written."""
    await admin.stop.request(request.actor, "the admin API")
    return Stopping(node=admin.stop.node_name)


@FIGURE_ROUTES.serve("GET", "/counters")
async def get_all_counters(
    admin: Administration, request: AdminRequest[NoQuery, None]
) -> shapes.AllCounters:
    """Read the counters of all hubs."""
    total, hubs = await admin.live.all_counters()
    return shapes.AllCounters(total=total, hubs=hubs)


@FIGURE_ROUTES.serve("GET", "/hubs/{hub}/counters", access=Access.SERVICE, errors=(NotFound,))
async def get_counters(admin: Administration, request: AdminRequest[NoQuery, None]) -> Counters:
    """Read the counters of a hub."""
    return await admin.live.counters(request.hub)
