"""Routes of hubs and of the settings that hold for all of a hub."""

from __future__ import annotations

from bisect import bisect_right
from heapq import nlargest
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from hubbub.domain.errors import Conflict, NotFound, Unavailable, VersionMismatch
from hubbub.domain.rules import HubSettings, Rules
from hubbub.engine.administration import Administration, Versioned
from hubbub.engine.administration.dry_run import RulesEffect, TryRules
from hubbub.engine.administration.lists import Ranked, ranked
from hubbub.engine.administration.survey import HubSizes
from hubbub.gateways.admin import shapes
from hubbub.gateways.admin.paging import ListQuery, Search, counted, cut, make_page, page_of
from hubbub.gateways.calls import NoQuery
from hubbub.gateways.routes import Access, AdminRequest, AdminResponse, Routes

HUB_ROUTES = Routes("/v1/admin", "Hubs", Access.ADMIN)
SETTINGS_ROUTES = Routes("/v1/admin", "Settings", Access.SERVICE, (NotFound,))


class HubQuery(ListQuery, frozen=True, forbid_unknown_fields=True):
    q: Search = ""
    sort: Annotated[
        Literal["name", "-sessions"],
        Meta(description="By name, or those with the most sessions first."),
    ] = "name"


@HUB_ROUTES.serve("GET", "/hubs")
async def list_hubs(
    admin: Administration, request: AdminRequest[HubQuery, None]
) -> shapes.CountedPage[shapes.HubEntry]:
    """List all hubs."""
    query = request.query
    names = await admin.hubs.search(query.prefix, query.q)
    if query.sort == "name":
        behind = names[bisect_right(names, query.cursor) :]
        page, following = cut(behind[: query.rows + 1], query.rows, str)
        sizes = await admin.live.hub_sizes(page)
    else:
        sizes = await admin.live.hub_sizes(None)
        after = ranked(query.cursor)
        every = (Ranked(sizes.get(name, (0, 0))[0], name) for name in names)
        first = nlargest(query.rows + 1, (each for each in every if each < after))
        found, following = cut(first, query.rows, lambda each: each.cursor)
        page = [each.name for each in found]
    return counted([_hub_entry(admin, hub, sizes) for hub in page], following, len(names))


def _hub_entry(admin: Administration, hub: str, sizes: HubSizes) -> shapes.HubEntry:
    sessions, channels = sizes.get(hub, (0, 0))
    return shapes.HubEntry(
        hub=hub,
        stored=admin.node.directory.is_stored(hub),
        sessions=sessions,
        channels=channels,
    )


@HUB_ROUTES.serve(
    "POST",
    "/hubs",
    access=Access.SERVICE,
    answers={201: shapes.HubView},
    errors=(Conflict,),
)
async def create_hub(
    admin: Administration, request: AdminRequest[NoQuery, shapes.HubCreation]
) -> AdminResponse:
    """Create a hub.

    For administrators and services of all hubs. A service creates it from the template
    `dynamicHubs`: rules, namespaces and auth provider are the template's, and so are those of the
    settings that only administrators may change."""
    hub = request.body.hub
    kept = await admin.hubs.create(request.actor, hub, request.body.settings)
    return AdminResponse(await _hub_view(admin, hub, kept), 201, kept.version)


async def _hub_view(
    admin: Administration, hub: str, settings: Versioned[HubSettings]
) -> shapes.HubView:
    entry = msgspec.structs.asdict(_hub_entry(admin, hub, await admin.live.hub_sizes([hub])))
    used, quota = await admin.inspector.used_bytes(hub), settings.value.quotas.stored_bytes
    return shapes.HubView(
        **entry,
        version=settings.version,
        settings=settings.value,
        stored_bytes=used,
        over_quota=bool(quota) and used > quota,
    )


@HUB_ROUTES.serve("GET", "/hubs/{hub}", access=Access.SERVICE, errors=(NotFound, Unavailable))
async def get_hub(admin: Administration, request: AdminRequest[NoQuery, None]) -> shapes.HubView:
    """Read a hub and how it is used."""
    return await _hub_view(admin, request.hub, await admin.hubs.settings(request.hub))


@HUB_ROUTES.serve("DELETE", "/hubs/{hub}", errors=(NotFound,))
async def delete_hub(admin: Administration, request: AdminRequest[NoQuery, None]) -> None:
    """Delete a hub with all that it holds, and end its sessions."""
    await admin.hubs.delete(request.actor, request.hub)


@SETTINGS_ROUTES.serve("GET", "/hubs/{hub}/settings")
async def get_hub_settings(
    admin: Administration, request: AdminRequest[NoQuery, None]
) -> Versioned[HubSettings]:
    """Read the settings of a hub."""
    return await admin.hubs.settings(request.hub)


@SETTINGS_ROUTES.serve("PUT", "/hubs/{hub}/settings", errors=(NotFound, Conflict, VersionMismatch))
async def put_hub_settings(
    admin: Administration, request: AdminRequest[NoQuery, HubSettings]
) -> Versioned[HubSettings]:
    """Replace the settings of a hub; an administrator may create it so."""
    return await admin.hubs.put_settings(
        request.actor, request.hub, request.body, request.condition
    )


@SETTINGS_ROUTES.serve("POST", "/hubs/{hub}/rules/{rules}/dry-run")
async def try_rules(admin: Administration, request: AdminRequest[NoQuery, Rules]) -> RulesEffect:
    """See what rules would do, without storing them."""
    return await admin.live.try_rules(TryRules(request.hub, request.path["rules"], request.body))


@SETTINGS_ROUTES.serve("GET", "/auth-providers", access=Access.ADMIN, errors=())
async def list_all_auth_providers(
    admin: Administration, request: AdminRequest[ListQuery, None]
) -> shapes.Page[shapes.ProviderOfHub]:
    """List the auth providers of all hubs.

    The prefix and the cursor are about `hub/name`."""
    every = [
        shapes.ProviderOfHub(hub=hub, name=found.name, version=found.version, value=found.value)
        for hub in admin.node.directory.names()
        for found in await admin.auth_providers.all(hub)
    ]
    every.sort(key=lambda each: f"{each.hub}/{each.name}")
    return make_page(*page_of(every, request.query, lambda each: f"{each.hub}/{each.name}"))
