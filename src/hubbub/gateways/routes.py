"""Routes: paths, callers, parameters and responses.

The table of routes (`gateways.admin.table`) is the single source: `gateways.hub_api` serves its
routes with `Access.HUB`, `gateways.admin.app` the others, the OpenAPI document describes all of
them, and the tests of access and invalid input iterate over the table."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from hubbub.domain.errors import HubbubError, MethodNotAllowed, NotFound
from hubbub.domain.fields import wire_name
from hubbub.engine.administration import (
    ANY_VERSION,
    Actor,
    Condition,
    Versioned,
)
from hubbub.gateways.calls import IdentifyCaller, NoQuery

Q = TypeVar("Q", bound=msgspec.Struct)
B = TypeVar("B")


class Access(enum.Enum):
    """The required level. From `CLIENT` on a token is required, for the hub in the path if there is
    one; without a hub in the path, it must be a token of an administrator of all hubs."""

    ANYONE = "anyone"
    HUB = "hub"
    """Decided by the hub's rules and the token's grants, as on the socket."""
    CLIENT = "client"
    SERVICE = "service"
    ADMIN = "admin"


class AdminRequest(msgspec.Struct, Generic[Q, B], frozen=True):
    """A validated request."""

    actor: Actor
    path: Mapping[str, str]
    query: Q
    body: B
    raw: bytes = b""
    condition: Condition = ANY_VERSION
    address: str = ""

    @property
    def hub(self) -> str:
        return self.path["hub"]


class AdminResponse(msgspec.Struct, frozen=True):
    """`version` becomes the ETag."""

    value: Any = None
    status: int = 200
    version: int | None = None


Handler = Callable[[Any, Any], Any]
"""With `Access.HUB` it is called with the node and a `HubRequest`, and returns a coroutine that
returns the JSON of the response or responds itself; or None, if it responds itself. Otherwise it is
called with the `Administration` and an `AdminRequest`, and the awaited result is the response."""
H = TypeVar("H", bound=Callable[..., Any])


class Route(msgspec.Struct, Generic[Q], frozen=True, kw_only=True):
    """`handler` is None if another part of the listener serves the route. `answers` holds the type
    of the body for each status, None without a body. `versioned`: a GET returns an ETag, a write
    accepts If-Match or If-None-Match."""

    method: str
    path: str
    operation_id: str
    tag: str
    summary: str
    access: Access
    handler: Handler | None = None
    query: type[Q]
    body: Any = None
    content_type: str = "application/json"
    other_bodies: Mapping[str, Any] = {}
    """Alternative bodies by content type."""
    headers: Mapping[str, Any] = {}
    """Types of the request's headers by name, without those of versions."""
    path_parameters: Mapping[str, str] = {}
    """By name, what a name in the path is, where the routes of other rooms do not have it."""
    answers: Mapping[int, Any]
    answer_type: str = "application/json"
    errors: Sequence[type[HubbubError]] = ()
    versioned: bool = False
    tag_pattern: str = r'"[0-9]{1,15}"|[0-9]{1,15}'
    """The pattern of its ETags."""
    max_body_bytes: int = 256 * 1024
    payloads: bool = False
    """The response contains users' content: not for viewers."""
    own: bool = False
    """Concerns only the caller's own token: viewers may call it."""
    reads_itself: bool = False
    """The handler reads the raw body; `body` only describes it."""
    any_query: bool = False
    """The handler reads the query and ignores unknown parameters; `query` only describes it."""
    caller: IdentifyCaller | None = None
    """For `Access.HUB`: how the caller is identified, if not by `require_identity`."""
    gives_up: bool = False
    """The work is cancelled when its client disconnects, although the method is not GET."""

    @property
    def viewable(self) -> bool:
        """Whether viewers may call it."""
        reads = self.method == "GET" and self.access in (Access.SERVICE, Access.ADMIN)
        return self.own or (reads and not self.payloads)

    @property
    def segments(self) -> tuple[str, ...]:
        return tuple(self.path.split("/")[1:])

    @property
    def parameters(self) -> list[str]:
        return [part[1:-1] for part in self.segments if part.startswith("{")]

    def respond(self, result: Any) -> AdminResponse:
        """Converts a handler's result to a response."""
        if isinstance(result, AdminResponse):
            return result
        if isinstance(result, Versioned):
            return AdminResponse(result.value, 201 if result.created else 200, result.version)
        return AdminResponse(result, min(self.answers))


AnyRoute = Route[Any]


class Routes(list[AnyRoute]):
    """Routes that share a path prefix and other properties."""

    def __init__(
        self,
        prefix: str,
        tag: str,
        access: Access,
        errors: Sequence[type[HubbubError]] = (),
        **more: Any,
    ) -> None:
        super().__init__()
        self._prefix = prefix
        self._common = {"tag": tag, "access": access, "errors": errors, "query": NoQuery, **more}

    def describe(
        self, method: str, path: str, operation_id: str, summary: str, **more: Any
    ) -> None:
        """Adds a route that another part of the listener serves."""
        self.append(
            Route(
                method=method,
                path=self._prefix + path,
                operation_id=operation_id,
                summary=summary,
                **{**self._common, **more},
            )
        )

    def serve(
        self, method: str, path: str, *, name: str = "", summary: str = "", **more: Any
    ) -> Callable[[H], H]:
        """Decorates a handler. The operation gets the handler's name, the first paragraph of its
        docstring as summary, the types in `AdminRequest[…]` or `HubRequest[…]` as `query` and
        `body`, and the handler's return type as response: `Versioned` means that the route has
        versions, None that there is no body. `more` overrides any of these."""

        def add(handler: H) -> H:
            hints = get_type_hints(handler, include_extras=True)
            query, *body = get_args(hints["request"])
            described = {
                "handler": handler,
                "query": query,
                "body": None if body in ([], [type(None)]) else body[0],
                **_answers(method, hints["return"]),
                **more,
            }
            paragraph = (inspect.getdoc(handler) or "").partition("\n\n")[0]
            summary_of = summary or " ".join(paragraph.split()).removesuffix(".")
            self.describe(
                method, path, name or wire_name(handler.__name__), summary_of, **described
            )
            return handler

        return add


def _answers(method: str, result: Any) -> dict[str, Any]:
    if result is type(None):
        return {"answers": {204: None}}
    if get_origin(result) is not Versioned:
        return {"answers": {200: result}}
    (kind,) = get_args(result)
    return {"answers": {200: kind} | ({201: kind} if method == "PUT" else {}), "versioned": True}


class Router:
    """Finds the route of a request by the segments of its path, decoded one by one: a name may
    hold any character, also an encoded '/'. `empty_names`: an empty segment is a name, which its
    reader refuses; otherwise there is nothing at such a path."""

    def __init__(self, routes: Sequence[AnyRoute], empty_names: bool = False) -> None:
        self._empty_names = empty_names
        self._by_length: dict[int, dict[tuple[int, ...], _Places]] = {}
        for route in sorted(routes, key=lambda route: len(route.parameters)):
            fixed = _fixed(route)
            alike = self._by_length.setdefault(len(route.segments), {})
            alike.setdefault(fixed, _Places(fixed)).add(route)

    def find(self, method: str, segments: Sequence[str]) -> tuple[AnyRoute, dict[str, str]]:
        """The route and the values of its parameters. Raises `NotFound`, `MethodNotAllowed`."""
        allowed: list[str] = []
        for places in self._by_length.get(len(segments), {}).values():
            found = places.by_words.get(places.words(segments))
            if found is None:
                continue
            route, names = found.get(method) or found.get(_LIKE.get(method, "")) or _NOTHING
            if route is None:
                allowed += found
            else:
                values = {name: segments[index] for name, index in names}
                if self._empty_names or all(values.values()):
                    return route, values
        if allowed:
            right = sorted({*allowed, *(["HEAD"] if "GET" in allowed else [])})
            raise MethodNotAllowed(
                f"{method} is not for this path; use {' or '.join(right)}", right
            )
        raise NotFound(f"there is nothing at /{'/'.join(segments)}; see /openapi.json")


_LIKE = {"HEAD": "GET"}
_Names = tuple[tuple[str, int], ...]
"""The parameters of a route, with the indexes of their segments."""
_NOTHING: tuple[None, _Names] = (None, ())


class _Places:
    """Paths with fixed words at the same positions."""

    def __init__(self, fixed: tuple[int, ...]) -> None:
        self.words: Callable[[Sequence[str]], Any] = itemgetter(*fixed)
        self.by_words: dict[Any, dict[str, tuple[AnyRoute, _Names]]] = {}

    def add(self, route: AnyRoute) -> None:
        names = tuple(
            (part[1:-1], index) for index, part in enumerate(route.segments) if part.startswith("{")
        )
        by_method = self.by_words.setdefault(self.words(route.segments), {})
        by_method[route.method] = (route, names)


def _fixed(route: AnyRoute) -> tuple[int, ...]:
    return tuple(index for index, part in enumerate(route.segments) if not part.startswith("{"))
