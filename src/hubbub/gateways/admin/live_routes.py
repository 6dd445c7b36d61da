"""Routes of channels, messages, sessions and figures."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hubbub.domain.errors import BadRequest, Conflict, NotFound, VersionMismatch
from hubbub.domain.fields import Name
from hubbub.domain.names import check_name
from hubbub.domain.rules import ChannelSettings
from hubbub.engine.administration import Administration, Versioned
from hubbub.engine.administration.views import BatchResult, Counters, SessionView, Topology
from hubbub.gateways.admin import public_shapes, shapes
from hubbub.gateways.admin.paging import ListQuery, given, make_page, page_of
from hubbub.gateways.admin.routes import Access, Answer, AnyRoute, Call, NoQuery, Route
from hubbub.gateways.http import error_shape
from hubbub.protocols.json.http import publish_items

_HUB = "/v1/admin/hubs/{hub}"
_CHANNEL = f"{_HUB}/channels/{{channel}}"


class ChannelQuery(ListQuery, frozen=True, forbid_unknown_fields=True):
    live: Annotated[bool, Meta(description="Only channels with sessions.")] = False


class SessionQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    limit: shapes.Limit = 100
    cursor: shapes.Cursor = ""
    user: Annotated[str, Meta(max_length=255, description="Only this user's.")] | UnsetType = UNSET
    channel: Annotated[Name, Meta(description="Only those that follow it.")] | UnsetType = UNSET


class TopologyQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    hub: Annotated[Name, Meta(description="Only this hub.")] | UnsetType = UNSET
    channels: Annotated[
        int, Meta(ge=0, le=1000, description="Channels to name per hub, the busiest first.")
    ] = 20


# -- channels -------------------------------------------------------------------------------------


async def list_channels(admin: Administration, call: Call[ChannelQuery, None]) -> Answer:
    settings = {each.name: each for each in await admin.channels.all(call.hub)}
    live = await admin.live.live_channels(call.hub)
    names = sorted(live) if call.query.live else sorted({*settings, *live})
    page, following = page_of(names, call.query, str)
    views = [_channel_view(name, settings.get(name), live.get(name, 0)) for name in page]
    return Answer(make_page(views, following))


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


async def get_channel_settings(admin: Administration, call: Call[NoQuery, None]) -> Answer:
    found = await admin.channels.get(call.hub, call.path["channel"])
    return Answer(shapes.ChannelSettings(rules=found.value.rules), version=found.version)


async def put_channel_settings(
    admin: Administration, call: Call[NoQuery, shapes.ChannelSettings]
) -> Answer:
    saved = await admin.channels.put_rules(
        call.actor, call.hub, call.path["channel"], call.body.rules, call.condition
    )
    return Answer(call.body, 201 if saved.created else 200, saved.version)


async def delete_channel_settings(admin: Administration, call: Call[NoQuery, None]) -> Answer:
    await admin.channels.delete(call.actor, call.hub, call.path["channel"], call.condition)
    return Answer(status=204)


async def get_metadata(admin: Administration, call: Call[NoQuery, None]) -> Answer:
    found = await admin.channels.get(call.hub, call.path["channel"])
    return Answer(shapes.Metadata(metadata=found.value.metadata), version=found.version)


async def put_metadata(admin: Administration, call: Call[NoQuery, shapes.Metadata]) -> Answer:
    saved = await admin.channels.put_metadata(
        call.actor, call.hub, call.path["channel"], call.body.metadata, call.condition
    )
    return Answer(call.body, 201 if saved.created else 200, saved.version)


async def get_presence(admin: Administration, call: Call[NoQuery, None]) -> Answer:
    channel = check_name(call.path["channel"], "channel")
    members = await admin.live.presence(call.actor.identity, call.hub, channel)
    return Answer(
        public_shapes.PresenceList(
            channel=channel,
            presence=[
                public_shapes.PresenceMember(
                    session_id=member.session_id,
                    user_id=member.user_id,
                    extra=member.extra,
                    timestamp=member.timestamp,
                )
                for member in members
            ],
        )
    )


# -- messages -------------------------------------------------------------------------------------


async def publish_batch(admin: Administration, call: Call[NoQuery, bytes]) -> Answer:
    items = publish_items(call.raw)
    if not items:
        raise BadRequest("'publishes' is empty; give at least one message")
    results = await admin.live.publish(call.actor.identity, call.hub, items)
    return Answer({"published": [_result(result) for result in results]})


def _result(result: BatchResult) -> dict[str, Any]:
    if result.error is not None:
        return {"success": False, "error": error_shape(result.error)}
    shown: dict[str, Any] = {"success": True, "msgID": result.message_id}
    if result.serial:
        shown["channelSerial"] = str(result.serial)
    return shown


# -- sessions -------------------------------------------------------------------------------------


async def list_sessions(admin: Administration, call: Call[SessionQuery, None]) -> Answer:
    query = call.query
    found = await admin.live.sessions(
        call.hub, query.limit + 1, query.cursor, given(query.user), given(query.channel)
    )
    page = found[: query.limit]
    more = len(found) > query.limit
    return Answer(make_page(page, page[-1].session_id if more else None))


async def get_session(admin: Administration, call: Call[NoQuery, None]) -> Answer:
    return Answer(await admin.live.session(call.hub, call.path["session"]))


async def disconnect_session(admin: Administration, call: Call[NoQuery, None]) -> Answer:
    await admin.live.disconnect(call.actor, call.hub, call.path["session"])
    return Answer(status=204)


# -- figures --------------------------------------------------------------------------------------


async def get_topology(admin: Administration, call: Call[TopologyQuery, None]) -> Answer:
    hub = given(call.query.hub)
    if hub is not None:
        check_name(hub, "hub")
    return Answer(await admin.live.topology(hub, call.query.channels))


async def get_all_counters(admin: Administration, call: Call[NoQuery, None]) -> Answer:
    total, hubs = await admin.live.all_counters()
    return Answer(shapes.AllCounters(total=total, hubs=hubs))


async def get_counters(admin: Administration, call: Call[NoQuery, None]) -> Answer:
    return Answer(await admin.live.counters(call.hub))


LIVE_ROUTES: list[AnyRoute] = [
    Route(
        method="GET", path=f"{_HUB}/channels", operation_id="listChannels", tag="Channels",
        summary="List channels that have settings or sessions", access=Access.SERVICE,
        handler=list_channels, query=ChannelQuery,
        answers={200: shapes.Page[shapes.ChannelView]}, errors=(NotFound,),
    ),
    Route(
        method="GET", path=f"{_CHANNEL}/settings", operation_id="getChannelSettings",
        tag="Channels", summary="Read the settings of a channel", access=Access.SERVICE,
        handler=get_channel_settings, query=NoQuery, answers={200: shapes.ChannelSettings},
        errors=(NotFound,), versioned=True,
    ),
    Route(
        method="PUT", path=f"{_CHANNEL}/settings", operation_id="putChannelSettings",
        tag="Channels", summary="Replace the settings of a channel; its metadata stays",
        access=Access.SERVICE, handler=put_channel_settings, query=NoQuery,
        body=shapes.ChannelSettings,
        answers={200: shapes.ChannelSettings, 201: shapes.ChannelSettings},
        errors=(NotFound, Conflict, VersionMismatch), versioned=True,
    ),
    Route(
        method="DELETE", path=f"{_CHANNEL}/settings", operation_id="deleteChannelSettings",
        tag="Channels", summary="Forget the settings and metadata of a channel",
        access=Access.SERVICE, handler=delete_channel_settings, query=NoQuery,
        answers={204: None}, errors=(NotFound, VersionMismatch), versioned=True,
    ),
    Route(
        method="GET", path=f"{_CHANNEL}/metadata", operation_id="getChannelMetadata",
        tag="Channels", summary="Read the metadata of a channel", access=Access.SERVICE,
        handler=get_metadata, query=NoQuery, answers={200: shapes.Metadata}, errors=(NotFound,),
        versioned=True,
    ),
    Route(
        method="PUT", path=f"{_CHANNEL}/metadata", operation_id="putChannelMetadata",
        tag="Channels", summary="Replace the metadata of a channel; its settings stay",
        access=Access.SERVICE, handler=put_metadata, query=NoQuery, body=shapes.Metadata,
        answers={200: shapes.Metadata, 201: shapes.Metadata}, errors=(NotFound, VersionMismatch),
        versioned=True,
    ),
    Route(
        method="GET", path=f"{_CHANNEL}/presence", operation_id="getChannelPresence",
        tag="Channels", summary="See who is in a channel", access=Access.SERVICE,
        handler=get_presence, query=NoQuery, answers={200: public_shapes.PresenceList},
        errors=(NotFound,),
    ),
    Route(
        method="POST", path=f"{_HUB}/messages", operation_id="publishBatchAsAdmin",
        tag="Channels", summary="Publish messages, with a result for each",
        access=Access.SERVICE, handler=publish_batch, query=NoQuery,
        body=public_shapes.PublishBatch, answers={200: public_shapes.PublishResults},
        errors=(NotFound,), max_body_bytes=64 * 1024 * 1024, reads_itself=True,
    ),
    Route(
        method="GET", path=f"{_HUB}/sessions", operation_id="listSessions", tag="Sessions",
        summary="List open sessions", access=Access.SERVICE, handler=list_sessions,
        query=SessionQuery, answers={200: shapes.Page[SessionView]}, errors=(NotFound,),
    ),
    Route(
        method="GET", path=f"{_HUB}/sessions/{{session}}", operation_id="getSession",
        tag="Sessions", summary="Read an open session", access=Access.SERVICE,
        handler=get_session, query=NoQuery, answers={200: SessionView}, errors=(NotFound,),
    ),
    Route(
        method="DELETE", path=f"{_HUB}/sessions/{{session}}", operation_id="disconnectSession",
        tag="Sessions", summary="End a session for good", access=Access.SERVICE,
        handler=disconnect_session, query=NoQuery, answers={204: None}, errors=(NotFound,),
    ),
    Route(
        method="GET", path="/v1/admin/topology", operation_id="getTopology", tag="Figures",
        summary="Read nodes, hubs and channels with the number of their sessions",
        access=Access.ADMIN, handler=get_topology, query=TopologyQuery, answers={200: Topology},
    ),
    Route(
        method="GET", path="/v1/admin/counters", operation_id="getAllCounters", tag="Figures",
        summary="Read the counters of all hubs", access=Access.ADMIN, handler=get_all_counters,
        query=NoQuery, answers={200: shapes.AllCounters},
    ),
    Route(
        method="GET", path=f"{_HUB}/counters", operation_id="getCounters", tag="Figures",
        summary="Read the counters of a hub", access=Access.SERVICE, handler=get_counters,
        query=NoQuery, answers={200: Counters}, errors=(NotFound,),
    ),
]  # fmt: skip
