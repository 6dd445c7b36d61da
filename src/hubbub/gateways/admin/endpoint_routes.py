"""Routes of the endpoints that a hub asks: auth providers, and services that answer calls."""

from __future__ import annotations

from hubbub.domain import rules as domain
from hubbub.domain.errors import Conflict
from hubbub.engine.administration import Administration
from hubbub.gateways.admin import shapes
from hubbub.gateways.admin.conversion import into
from hubbub.gateways.admin.crud import crud, missing, page, saved
from hubbub.gateways.admin.paging import ListQuery, make_page, page_of
from hubbub.gateways.admin.routes import Access, Answer, AnyRoute, Call, NoQuery, Route

_HUB = "/v1/admin/hubs/{hub}"


async def list_auth_providers(admin: Administration, call: Call[ListQuery, None]) -> Answer:
    every = await admin.auth_providers.all(call.hub)
    return page(call.query, every, lambda value: into(shapes.AuthProvider, value))


async def list_all_auth_providers(admin: Administration, call: Call[ListQuery, None]) -> Answer:
    """Of all hubs; the prefix and the cursor are about `hub/name`."""
    every = [
        shapes.ProviderOfHub(
            hub=hub,
            name=found.name,
            version=found.version,
            value=into(shapes.AuthProvider, found.value),
        )
        for hub in admin.node.directory.names()
        for found in await admin.auth_providers.all(hub)
    ]
    every.sort(key=lambda each: f"{each.hub}/{each.name}")
    found, following = page_of(every, call.query, lambda each: f"{each.hub}/{each.name}")
    return Answer(make_page(found, following))


async def get_auth_provider(admin: Administration, call: Call[NoQuery, None]) -> Answer:
    name = call.path["provider"]
    found = await admin.auth_providers.get(call.hub, name)
    if found is None:
        raise missing(call.hub, "auth provider", name)
    return Answer(into(shapes.AuthProvider, found.value), version=found.version)


async def put_auth_provider(
    admin: Administration, call: Call[NoQuery, shapes.AuthProvider]
) -> Answer:
    value = into(domain.AuthProvider, call.body)
    kept = await admin.auth_providers.put(
        call.actor, call.hub, call.path["provider"], value, call.condition
    )
    return saved(kept, into(shapes.AuthProvider, kept.value))


async def delete_auth_provider(admin: Administration, call: Call[NoQuery, None]) -> Answer:
    await admin.auth_providers.delete(call.actor, call.hub, call.path["provider"], call.condition)
    return Answer(status=204)


# -- routes to services ---------------------------------------------------------------------------


async def list_rpc_routes(admin: Administration, call: Call[ListQuery, None]) -> Answer:
    every = await admin.rpc_routes.all(call.hub)
    return page(call.query, every, lambda value: into(shapes.RpcRoute, value))


async def get_rpc_route(admin: Administration, call: Call[NoQuery, None]) -> Answer:
    name = call.path["route"]
    found = await admin.rpc_routes.get(call.hub, name)
    if found is None:
        raise missing(call.hub, "rpc route", name)
    return Answer(into(shapes.RpcRoute, found.value), version=found.version)


async def put_rpc_route(admin: Administration, call: Call[NoQuery, shapes.RpcRoute]) -> Answer:
    kept = await admin.rpc_routes.put(
        call.actor,
        call.hub,
        call.path["route"],
        into(domain.RpcRoute, call.body),
        call.condition,
    )
    return saved(kept, into(shapes.RpcRoute, kept.value))


async def delete_rpc_route(admin: Administration, call: Call[NoQuery, None]) -> Answer:
    await admin.rpc_routes.delete(call.actor, call.hub, call.path["route"], call.condition)
    return Answer(status=204)


ENDPOINT_ROUTES: list[AnyRoute] = [
    *crud(
        f"{_HUB}/auth-providers", "auth providers", "AuthProvider", "AuthProviders",
        shapes.AuthProvider, list_auth_providers, get_auth_provider, put_auth_provider,
        delete_auth_provider, (Conflict,),
    ),
    Route(
        method="GET", path="/v1/admin/auth-providers", operation_id="listAllAuthProviders",
        tag="Settings", summary="List the auth providers of all hubs", access=Access.ADMIN,
        handler=list_all_auth_providers, query=ListQuery,
        answers={200: shapes.Page[shapes.ProviderOfHub]},
    ),
    *crud(
        f"{_HUB}/rpc-routes", "routes to services", "RpcRoute", "RpcRoutes", shapes.RpcRoute,
        list_rpc_routes, get_rpc_route, put_rpc_route, delete_rpc_route,
    ),
]  # fmt: skip
