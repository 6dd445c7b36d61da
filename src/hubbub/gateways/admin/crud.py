"""What the routes of all named parts of a hub have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hubbub.domain.errors import Conflict, NotFound, VersionMismatch
from hubbub.engine.administration import Versioned
from hubbub.gateways.admin import shapes
from hubbub.gateways.admin.paging import ListQuery, make_page, page_of
from hubbub.gateways.admin.routes import Access, Answer, AnyRoute, NoQuery, Route


def saved(found: Versioned[Any], value: object) -> Answer:
    return Answer(value, 201 if found.created else 200, found.version)


def _named(found: Versioned[Any], value: Any) -> shapes.Named[Any]:
    return shapes.Named(name=found.name, version=found.version, value=value)


def page(query: ListQuery, every: list[Versioned[Any]], show: Callable[[Any], object]) -> Answer:
    page, following = page_of(every, query, lambda each: each.name)
    return Answer(make_page([_named(each, show(each.value)) for each in page], following))


def missing(hub: str, what: str, name: str) -> NotFound:
    return NotFound(f"hub {hub!r} has no {what} {name!r}")


def crud(
    path: str,
    what: str,
    one: str,
    many: str,
    body: Any,
    list_: Any,
    get: Any,
    put: Any,
    delete: Any,
    delete_errors: tuple[Any, ...] = (),
) -> list[AnyRoute]:
    """The five routes of a named part of a hub."""
    item = f"{path}/{{{_parameter(path)}}}"
    changes = (VersionMismatch, NotFound)
    return [
        Route(
            method="GET", path=path, operation_id=f"list{many}", tag="Settings",
            summary=f"List the {what} of a hub", access=Access.SERVICE, handler=list_,
            query=ListQuery, answers={200: shapes.Page[shapes.Named[body]]}, errors=(NotFound,),
        ),
        Route(
            method="GET", path=item, operation_id=f"get{one}", tag="Settings",
            summary=f"Read one of the {what} of a hub", access=Access.SERVICE, handler=get,
            query=NoQuery, answers={200: body}, errors=(NotFound,), versioned=True,
        ),
        Route(
            method="PUT", path=item, operation_id=f"put{one}", tag="Settings",
            summary=f"Create or replace one of the {what} of a hub", access=Access.SERVICE,
            handler=put, query=NoQuery, body=body, answers={200: body, 201: body},
            errors=(*changes, Conflict), versioned=True,
        ),
        Route(
            method="DELETE", path=item, operation_id=f"delete{one}", tag="Settings",
            summary=f"Delete one of the {what} of a hub", access=Access.SERVICE, handler=delete,
            query=NoQuery, answers={204: None}, errors=(*changes, *delete_errors), versioned=True,
        ),
    ]  # fmt: skip


def _parameter(path: str) -> str:
    names = {
        "rules": "rules",
        "namespaces": "namespace",
        "auth-providers": "provider",
        "rpc-routes": "route",
    }
    return names[path.rpartition("/")[2]]
