"""Routes of hubs and of the settings that they are made of."""

from __future__ import annotations

from hubbub.domain.errors import Conflict, NotFound, VersionMismatch
from hubbub.domain.rules import HubSettings
from hubbub.engine.administration import Administration, Versioned
from hubbub.gateways.admin import shapes
from hubbub.gateways.admin.crud import saved
from hubbub.gateways.admin.paging import ListQuery, make_page, page_of
from hubbub.gateways.admin.routes import Access, Answer, AnyRoute, Call, NoQuery, Route

_HUB = "/v1/admin/hubs/{hub}"


# -- hubs -----------------------------------------------------------------------------------------


async def list_hubs(admin: Administration, call: Call[ListQuery, None]) -> Answer:
    found, following = page_of(admin.hubs.names(), call.query, str)
    return Answer(make_page([_hub_entry(admin, hub) for hub in found], following))


def _hub_entry(admin: Administration, hub: str) -> shapes.HubEntry:
    live = admin.node.hubs.get(hub)
    return shapes.HubEntry(
        hub=hub,
        stored=admin.node.directory.is_stored(hub),
        sessions=len(live.sessions) if live is not None else 0,
        channels=len(live.feeds) if live is not None else 0,
    )


async def create_hub(admin: Administration, call: Call[NoQuery, shapes.HubCreation]) -> Answer:
    kept = await admin.hubs.create(call.actor, call.body.hub, call.body.settings)
    return Answer(_hub_view(admin, call.body.hub, kept), 201, kept.version)


def _hub_view(admin: Administration, hub: str, settings: Versioned[HubSettings]) -> shapes.HubView:
    entry = _hub_entry(admin, hub)
    return shapes.HubView(
        hub=hub,
        stored=entry.stored,
        sessions=entry.sessions,
        channels=entry.channels,
        version=settings.version,
        settings=settings.value,
    )


async def get_hub(admin: Administration, call: Call[NoQuery, None]) -> Answer:
    return Answer(_hub_view(admin, call.hub, await admin.hubs.settings(call.hub)))


async def delete_hub(admin: Administration, call: Call[NoQuery, None]) -> Answer:
    await admin.hubs.delete(call.actor, call.hub)
    return Answer(status=204)


async def get_settings(admin: Administration, call: Call[NoQuery, None]) -> Answer:
    found = await admin.hubs.settings(call.hub)
    return Answer(found.value, version=found.version)


async def put_settings(admin: Administration, call: Call[NoQuery, HubSettings]) -> Answer:
    kept = await admin.hubs.put_settings(call.actor, call.hub, call.body, call.condition)
    return saved(kept, kept.value)


async def list_all_auth_providers(admin: Administration, call: Call[ListQuery, None]) -> Answer:
    """Of all hubs; the prefix and the cursor are about `hub/name`."""
    every = [
        shapes.ProviderOfHub(hub=hub, name=found.name, version=found.version, value=found.value)
        for hub in admin.node.directory.names()
        for found in await admin.auth_providers.all(hub)
    ]
    every.sort(key=lambda each: f"{each.hub}/{each.name}")
    found, following = page_of(every, call.query, lambda each: f"{each.hub}/{each.name}")
    return Answer(make_page(found, following))


SETTINGS_ROUTES: list[AnyRoute] = [
    Route(
        method="GET", path="/v1/admin/hubs", operation_id="listHubs", tag="Hubs",
        summary="List all hubs", access=Access.ADMIN, handler=list_hubs, query=ListQuery,
        answers={200: shapes.Page[shapes.HubEntry]},
    ),
    Route(
        method="POST", path="/v1/admin/hubs", operation_id="createHub", tag="Hubs",
        summary="Create a hub", access=Access.ADMIN, handler=create_hub, query=NoQuery,
        body=shapes.HubCreation, answers={201: shapes.HubView}, errors=(Conflict,),
    ),
    Route(
        method="GET", path=_HUB, operation_id="getHub", tag="Hubs",
        summary="Read a hub and how it is used", access=Access.SERVICE, handler=get_hub,
        query=NoQuery, answers={200: shapes.HubView}, errors=(NotFound,),
    ),
    Route(
        method="DELETE", path=_HUB, operation_id="deleteHub", tag="Hubs",
        summary="Delete a hub with all that it holds, and end its sessions",
        access=Access.ADMIN, handler=delete_hub, query=NoQuery, answers={204: None},
        errors=(NotFound,),
    ),
    Route(
        method="GET", path=f"{_HUB}/settings", operation_id="getHubSettings", tag="Settings",
        summary="Read the settings of a hub", access=Access.SERVICE, handler=get_settings,
        query=NoQuery, answers={200: HubSettings}, errors=(NotFound,), versioned=True,
    ),
    Route(
        method="PUT", path=f"{_HUB}/settings", operation_id="putHubSettings", tag="Settings",
        summary="Replace the settings of a hub; an administrator may create it so",
        access=Access.SERVICE, handler=put_settings, query=NoQuery, body=HubSettings,
        answers={200: HubSettings, 201: HubSettings},
        errors=(NotFound, Conflict, VersionMismatch), versioned=True,
    ),
    Route(
        method="GET", path="/v1/admin/auth-providers", operation_id="listAllAuthProviders",
        tag="Settings", summary="List the auth providers of all hubs", access=Access.ADMIN,
        handler=list_all_auth_providers, query=ListQuery,
        answers={200: shapes.Page[shapes.ProviderOfHub]},
    ),
]  # fmt: skip
