"""The routes of all named parts of a hub: list, read, create or replace, and delete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from hubbub.domain.communication.information import MessageInfo
from hubbub.domain.communication.routing import RoutingRule
from hubbub.domain.communication.settings import AdapterSettings, CallbackSettings
from hubbub.domain.errors import Conflict, NotFound, VersionMismatch
from hubbub.domain.mercure.keys import MercureKey
from hubbub.domain.rules import AuthProvider, RpcRoute, Rules
from hubbub.engine.administration import Administration, NamedSettings, Versioned
from hubbub.gateways.admin import shapes
from hubbub.gateways.admin.paging import ListQuery, make_page, page_of
from hubbub.gateways.admin.shapes import into
from hubbub.gateways.calls import NoQuery
from hubbub.gateways.routes import Access, AdminRequest, Routes


class NamedPart(msgspec.Struct, frozen=True, kw_only=True):
    """A named part of a hub: its path, its name in operations and summaries, and the required
    level. `to_wire` and `from_wire` convert values that are not JSON objects."""

    segment: str
    parameter: str
    one: str
    many: str
    body: Any
    settings: Callable[[Administration], NamedSettings[Any]]
    to_wire: Callable[[Any], Any] = lambda value: value
    from_wire: Callable[[Any], Any] = lambda body: body
    referred_to: bool = False
    """Other settings may refer to it, and prevent its deletion."""


PARTS = (
    NamedPart(
        segment="rules", parameter="rules", one="Rules", many="rules", body=Rules,
        settings=lambda admin: admin.rules, referred_to=True,
    ),
    NamedPart(
        segment="namespaces", parameter="namespace", one="Namespace", many="namespaces",
        body=shapes.Namespace, settings=lambda admin: admin.namespaces,
        to_wire=lambda rules: shapes.Namespace(rules=rules), from_wire=lambda body: body.rules,
    ),
    NamedPart(
        segment="auth-providers", parameter="provider", one="AuthProvider", many="auth providers",
        body=AuthProvider, settings=lambda admin: admin.auth_providers, referred_to=True,
    ),
    NamedPart(
        segment="rpc-routes", parameter="route", one="RpcRoute", many="routes to services",
        body=RpcRoute, settings=lambda admin: admin.rpc_routes,
    ),
    NamedPart(
        segment="routes", parameter="rule", one="RoutingRule", many="routing rules",
        body=RoutingRule, settings=lambda admin: admin.communication.routes,
    ),
    NamedPart(
        segment="adapters", parameter="adapter", one="Adapter", many="adapters",
        body=AdapterSettings, settings=lambda admin: admin.communication.adapters,
    ),
    NamedPart(
        segment="callbacks", parameter="callback", one="Callback", many="callbacks",
        body=CallbackSettings, settings=lambda admin: admin.communication.callbacks,
    ),
    NamedPart(
        segment="message-info", parameter="info", one="MessageInfo", many="message infos",
        body=MessageInfo, settings=lambda admin: admin.communication.message_info,
    ),
    NamedPart(
        segment="mercure-keys", parameter="key", one="MercureKey", many="keys of Mercure",
        body=MercureKey, settings=lambda admin: admin.mercure_keys,
    ),
)  # fmt: skip


def _add_routes(part: NamedPart) -> None:
    path = f"/{part.segment}"
    item = f"{path}/{{{part.parameter}}}"
    plural = part.one if part.one.endswith("s") else f"{part.one}s"
    changes = (VersionMismatch, NotFound)
    serve = PART_ROUTES.serve

    def wire(found: Versioned[Any]) -> Versioned[Any]:
        return found.map(part.to_wire)

    @serve(
        "GET", path, name=f"list{plural}", summary=f"List the {part.many} of a hub",
        answers={200: shapes.Page[shapes.Named[part.body]]},  # type: ignore[name-defined]
    )  # fmt: skip
    async def list_all(
        admin: Administration, request: AdminRequest[ListQuery, None]
    ) -> shapes.Page[Any]:
        every = await part.settings(admin).all(request.hub)
        page, following = page_of(every, request.query, lambda each: each.name)
        return make_page([into(shapes.Named[Any], wire(each)) for each in page], following)

    @serve(
        "GET", item, name=f"get{part.one}", summary=f"Read one of the {part.many} of a hub",
        answers={200: part.body},
    )  # fmt: skip
    async def get(admin: Administration, request: AdminRequest[NoQuery, None]) -> Versioned[Any]:
        return wire(await part.settings(admin).get(request.hub, request.path[part.parameter]))

    @serve(
        "PUT", item, name=f"put{part.one}",
        summary=f"Create or replace one of the {part.many} of a hub", body=part.body,
        answers={200: part.body, 201: part.body}, errors=(*changes, Conflict),
    )  # fmt: skip
    async def put(admin: Administration, request: AdminRequest[NoQuery, Any]) -> Versioned[Any]:
        name, value = request.path[part.parameter], part.from_wire(request.body)
        settings = part.settings(admin)
        return wire(await settings.put(request.actor, request.hub, name, value, request.condition))

    @serve(
        "DELETE", item, name=f"delete{part.one}", summary=f"Delete one of the {part.many} of a hub",
        versioned=True, errors=(*changes, Conflict) if part.referred_to else changes,
    )  # fmt: skip
    async def delete(admin: Administration, request: AdminRequest[NoQuery, None]) -> None:
        name = request.path[part.parameter]
        await part.settings(admin).delete(request.actor, request.hub, name, request.condition)


PART_ROUTES = Routes("/v1/admin/hubs/{hub}", "Settings", Access.SERVICE, (NotFound,))
for part in PARTS:
    _add_routes(part)
