"""Routes of channels, messages, sessions and figures."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hubbub.domain.errors import Conflict, NotFound, VersionMismatch
from hubbub.domain.fields import Name
from hubbub.domain.names import check_name
from hubbub.domain.notices import PublishResult
from hubbub.domain.rules import ChannelSettings
from hubbub.engine.administration import Administration, Versioned
from hubbub.engine.administration.views import Counters, SessionView, Topology
from hubbub.gateways.admin import public_shapes, shapes
from hubbub.gateways.admin.paging import (
    ListQuery,
    PageQuery,
    cut,
    make_page,
    page_of,
)
from hubbub.gateways.admin.routes import Access, AdminRequest, Routes
from hubbub.gateways.calls import NoQuery, given
from hubbub.gateways.http import error_shape
from hubbub.protocols.json.http import presence_json, publish_items

CHANNEL_ROUTES = Routes("/v1/admin/hubs/{hub}", "Channels", Access.SERVICE, (NotFound,))
SESSION_ROUTES = Routes("/v1/admin/hubs/{hub}/sessions", "Sessions", Access.SERVICE, (NotFound,))
FIGURE_ROUTES = Routes("/v1/admin", "Figures", Access.ADMIN)
_SETTINGS = "/channels/{channel}/settings"
_METADATA = "/channels/{channel}/metadata"


class ChannelQuery(ListQuery, frozen=True, forbid_unknown_fields=True):
    live: Annotated[bool, Meta(description="Only channels with sessions.")] = False


class SessionQuery(PageQuery, frozen=True, forbid_unknown_fields=True):
    user: Annotated[str, Meta(max_length=255, description="Only this user's.")] | UnsetType = UNSET
    channel: Annotated[Name, Meta(description="Only those that follow it.")] | UnsetType = UNSET


class TopologyQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    hub: Annotated[Name, Meta(description="Only this hub.")] | UnsetType = UNSET
    channels: Annotated[
        int, Meta(ge=0, le=1000, description="Channels to name per hub, the busiest first.")
    ] = 20


# -- channels -------------------------------------------------------------------------------------


@CHANNEL_ROUTES.serve("GET", "/channels")
async def list_channels(
    admin: Administration, request: AdminRequest[ChannelQuery, None]
) -> shapes.Page[shapes.ChannelView]:
    """List channels that have settings or sessions."""
    settings = {each.name: each for each in await admin.channels.all(request.hub)}
    live = await admin.live.live_channels(request.hub)
    names = sorted(live) if request.query.live else sorted({*settings, *live})
    page, following = page_of(names, request.query, str)
    views = [_channel_view(name, settings.get(name), live.get(name, 0)) for name in page]
    return make_page(views, following)


def _channel_view(
    name: str, found: Versioned[ChannelSettings] | None, sessions: int
) -> shapes.ChannelView:
    settings = found.value if found is not None else ChannelSettings()
    return shapes.ChannelView(
        channel=name,
        sessions=sessions,
        version=found.version if found is not None else 0,
        rules=settings.rules,
        metadata=settings.metadata,
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
    "GET", "/channels/{channel}/presence", answers={200: public_shapes.PresenceList}
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
) -> shapes.Page[SessionView]:
    """List open sessions."""
    query = request.query
    found = await admin.live.sessions(
        request.hub, query.limit + 1, query.cursor, given(query.user), given(query.channel)
    )
    return make_page(*cut(found, query.limit, lambda session: session.session_id))


@SESSION_ROUTES.serve("GET", "/{session}")
async def get_session(admin: Administration, request: AdminRequest[NoQuery, None]) -> SessionView:
    """Read an open session."""
    return await admin.live.session(request.hub, request.path["session"])


@SESSION_ROUTES.serve("DELETE", "/{session}")
async def disconnect_session(admin: Administration, request: AdminRequest[NoQuery, None]) -> None:
    """End a session for good."""
    await admin.live.disconnect(request.actor, request.hub, request.path["session"])


# -- figures --------------------------------------------------------------------------------------


@FIGURE_ROUTES.serve("GET", "/topology")
async def get_topology(
    admin: Administration, request: AdminRequest[TopologyQuery, None]
) -> Topology:
    """Read nodes, hubs and channels with the number of their sessions."""
    hub = given(request.query.hub)
    if hub is not None:
        check_name(hub, "hub")
    return await admin.live.topology(hub, request.query.channels)


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
