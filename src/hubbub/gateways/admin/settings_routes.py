"""Routes of hubs and of the settings that they are made of."""

from __future__ import annotations

from hubbub.domain import rules as domain
from hubbub.domain.errors import Conflict, NotFound, VersionMismatch
from hubbub.engine.administration import Administration, Versioned
from hubbub.gateways.admin import shapes
from hubbub.gateways.admin.conversion import into
from hubbub.gateways.admin.crud import crud, missing, page, saved
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
    settings = into(domain.HubSettings, call.body.settings)
    kept = await admin.hubs.create(call.actor, call.body.hub, settings)
    return Answer(_hub_view(admin, call.body.hub, kept), 201, kept.version)


def _hub_view(
    admin: Administration, hub: str, settings: Versioned[domain.HubSettings]
) -> shapes.HubView:
    entry = _hub_entry(admin, hub)
    return shapes.HubView(
        hub=hub,
        stored=entry.stored,
        sessions=entry.sessions,
        channels=entry.channels,
        version=settings.version,
        settings=into(shapes.HubSettings, settings.value),
    )


async def get_hub(admin: Administration, call: Call[NoQuery, None]) -> Answer:
    return Answer(_hub_view(admin, call.hub, await admin.hubs.settings(call.hub)))


async def delete_hub(admin: Administration, call: Call[NoQuery, None]) -> Answer:
    await admin.hubs.delete(call.actor, call.hub)
    return Answer(status=204)


async def get_settings(admin: Administration, call: Call[NoQuery, None]) -> Answer:
    found = await admin.hubs.settings(call.hub)
    return Answer(into(shapes.HubSettings, found.value), version=found.version)


async def put_settings(admin: Administration, call: Call[NoQuery, shapes.HubSettings]) -> Answer:
    settings = into(domain.HubSettings, call.body)
    kept = await admin.hubs.put_settings(call.actor, call.hub, settings, call.condition)
    return saved(kept, into(shapes.HubSettings, kept.value))


# -- rules ----------------------------------------------------------------------------------------


async def list_rules(admin: Administration, call: Call[ListQuery, None]) -> Answer:
    every = await admin.rules.all(call.hub)
    return page(call.query, every, lambda value: into(shapes.Rules, value))


async def get_rules(admin: Administration, call: Call[NoQuery, None]) -> Answer:
    name = call.path["rules"]
    found = await admin.rules.get(call.hub, name)
    if found is None:
        raise missing(call.hub, "rules", name)
    return Answer(into(shapes.Rules, found.value), version=found.version)


async def put_rules(admin: Administration, call: Call[NoQuery, shapes.Rules]) -> Answer:
    value = into(domain.Rules, call.body)
    kept = await admin.rules.put(call.actor, call.hub, call.path["rules"], value, call.condition)
    return saved(kept, call.body)


async def delete_rules(admin: Administration, call: Call[NoQuery, None]) -> Answer:
    await admin.rules.delete(call.actor, call.hub, call.path["rules"], call.condition)
    return Answer(status=204)


# -- namespaces -----------------------------------------------------------------------------------


async def list_namespaces(admin: Administration, call: Call[ListQuery, None]) -> Answer:
    every = await admin.namespaces.all(call.hub)
    return page(call.query, every, lambda rules: shapes.Namespace(rules=rules))


async def get_namespace(admin: Administration, call: Call[NoQuery, None]) -> Answer:
    name = call.path["namespace"]
    found = await admin.namespaces.get(call.hub, name)
    if found is None:
        raise missing(call.hub, "namespace", name)
    return Answer(shapes.Namespace(rules=found.value), version=found.version)


async def put_namespace(admin: Administration, call: Call[NoQuery, shapes.Namespace]) -> Answer:
    kept = await admin.namespaces.put(
        call.actor, call.hub, call.path["namespace"], call.body.rules, call.condition
    )
    return saved(kept, call.body)


async def delete_namespace(admin: Administration, call: Call[NoQuery, None]) -> Answer:
    await admin.namespaces.delete(call.actor, call.hub, call.path["namespace"], call.condition)
    return Answer(status=204)


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
        query=NoQuery, answers={200: shapes.HubSettings}, errors=(NotFound,), versioned=True,
    ),
    Route(
        method="PUT", path=f"{_HUB}/settings", operation_id="putHubSettings", tag="Settings",
        summary="Replace the settings of a hub; an administrator may create it so",
        access=Access.SERVICE, handler=put_settings, query=NoQuery, body=shapes.HubSettings,
        answers={200: shapes.HubSettings, 201: shapes.HubSettings},
        errors=(NotFound, Conflict, VersionMismatch), versioned=True,
    ),
    *crud(
        f"{_HUB}/rules", "rules", "Rules", "Rules", shapes.Rules,
        list_rules, get_rules, put_rules, delete_rules, (Conflict,),
    ),
    *crud(
        f"{_HUB}/namespaces", "namespaces", "Namespace", "Namespaces", shapes.Namespace,
        list_namespaces, get_namespace, put_namespace, delete_namespace,
    ),
]  # fmt: skip
