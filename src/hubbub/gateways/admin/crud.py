"""The routes of all named parts of a hub: list, read, create or replace, and delete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from hubbub.domain.errors import Conflict, NotFound, VersionMismatch
from hubbub.domain.rules import AuthProvider, RpcRoute, Rules
from hubbub.engine.administration import Administration, NamedSettings, Versioned
from hubbub.gateways.admin import shapes
from hubbub.gateways.admin.paging import ListQuery, make_page, page_of
from hubbub.gateways.admin.routes import Access, Answer, AnyRoute, Call, NoQuery, Route


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A named part of a hub: where it is in the paths, what operations and summaries call it, and
    who administers it. `to_wire` and `from_wire` are for values that are no JSON object by
    themselves."""

    segment: str
    parameter: str
    one: str
    many: str
    body: Any
    settings: Callable[[Administration], NamedSettings[Any]]
    to_wire: Callable[[Any], Any] = lambda value: value
    from_wire: Callable[[Any], Any] = lambda body: body
    referred_to: bool = False
    """Others may refer to it by name, and then it cannot be deleted."""


PARTS = (
    Part(
        segment="rules", parameter="rules", one="Rules", many="rules", body=Rules,
        settings=lambda admin: admin.rules, referred_to=True,
    ),
    Part(
        segment="namespaces", parameter="namespace", one="Namespace", many="namespaces",
        body=shapes.Namespace, settings=lambda admin: admin.namespaces,
        to_wire=lambda rules: shapes.Namespace(rules=rules), from_wire=lambda body: body.rules,
    ),
    Part(
        segment="auth-providers", parameter="provider", one="AuthProvider", many="auth providers",
        body=AuthProvider, settings=lambda admin: admin.auth_providers, referred_to=True,
    ),
    Part(
        segment="rpc-routes", parameter="route", one="RpcRoute", many="routes to services",
        body=RpcRoute, settings=lambda admin: admin.rpc_routes,
    ),
)  # fmt: skip


def saved(found: Versioned[Any], value: object) -> Answer:
    return Answer(value, 201 if found.created else 200, found.version)


def _routes_of(part: Part) -> list[AnyRoute]:
    async def list_all(admin: Administration, call: Call[ListQuery, None]) -> Answer:
        every = await part.settings(admin).all(call.hub)
        page, following = page_of(every, call.query, lambda each: each.name)
        return Answer(
            make_page(
                [
                    shapes.Named(
                        name=each.name, version=each.version, value=part.to_wire(each.value)
                    )
                    for each in page
                ],
                following,
            )
        )

    async def get(admin: Administration, call: Call[NoQuery, None]) -> Answer:
        found = await part.settings(admin).get(call.hub, call.path[part.parameter])
        return Answer(part.to_wire(found.value), version=found.version)

    async def put(admin: Administration, call: Call[NoQuery, Any]) -> Answer:
        kept = await part.settings(admin).put(
            call.actor,
            call.hub,
            call.path[part.parameter],
            part.from_wire(call.body),
            call.condition,
        )
        return saved(kept, part.to_wire(kept.value))

    async def delete(admin: Administration, call: Call[NoQuery, None]) -> Answer:
        await part.settings(admin).delete(
            call.actor, call.hub, call.path[part.parameter], call.condition
        )
        return Answer(status=204)

    path = f"/v1/admin/hubs/{{hub}}/{part.segment}"
    item = f"{path}/{{{part.parameter}}}"
    plural = part.one if part.one.endswith("s") else f"{part.one}s"
    changes = (VersionMismatch, NotFound)
    return [
        Route(
            method="GET", path=path, operation_id=f"list{plural}", tag="Settings",
            summary=f"List the {part.many} of a hub", access=Access.SERVICE, handler=list_all,
            query=ListQuery, answers={200: shapes.Page[shapes.Named[part.body]]},  # type: ignore[name-defined]
            errors=(NotFound,),
        ),
        Route(
            method="GET", path=item, operation_id=f"get{part.one}", tag="Settings",
            summary=f"Read one of the {part.many} of a hub", access=Access.SERVICE, handler=get,
            query=NoQuery, answers={200: part.body}, errors=(NotFound,), versioned=True,
        ),
        Route(
            method="PUT", path=item, operation_id=f"put{part.one}", tag="Settings",
            summary=f"Create or replace one of the {part.many} of a hub", access=Access.SERVICE,
            handler=put, query=NoQuery, body=part.body,
            answers={200: part.body, 201: part.body}, errors=(*changes, Conflict), versioned=True,
        ),
        Route(
            method="DELETE", path=item, operation_id=f"delete{part.one}", tag="Settings",
            summary=f"Delete one of the {part.many} of a hub", access=Access.SERVICE,
            handler=delete, query=NoQuery, answers={204: None}, versioned=True,
            errors=(*changes, Conflict) if part.referred_to else changes,
        ),
    ]  # fmt: skip


PART_ROUTES: list[AnyRoute] = [route for part in PARTS for route in _routes_of(part)]
