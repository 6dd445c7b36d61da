"""Routes: what can be asked for, by whom, with what, and what comes back.

The table of routes is the single source: the application serves it, the OpenAPI document describes
it, and the tests of access walk through it.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from hubbub.domain.errors import HubbubError, MethodNotAllowed, NotFound
from hubbub.domain.fields import wire_name
from hubbub.engine.administration import (
    ANY_VERSION,
    Actor,
    Administration,
    Condition,
    Versioned,
)
from hubbub.gateways.calls import NoQuery

Q = TypeVar("Q", bound=msgspec.Struct)
B = TypeVar("B")


class Access(enum.Enum):
    """Who may call. From `CLIENT` on a token is needed, for the hub in the path if there is one;
    without a hub in the path only an administrator of all hubs can be meant."""

    ANYONE = "anyone"
    HUB = "hub"
    """Decided by the hub's rules and the token's grants, as on the socket."""
    CLIENT = "client"
    SERVICE = "service"
    ADMIN = "admin"


class AdminRequest(msgspec.Struct, Generic[Q, B], frozen=True):
    """One request, checked and read."""

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


Handler = Callable[[Administration, AdminRequest[Q, B]], Awaitable[Any]]
H = TypeVar("H", bound=Callable[..., Awaitable[Any]])


class Route(msgspec.Struct, Generic[Q, B], frozen=True, kw_only=True):
    """`handler` is None for what another part of the listener serves. `answers` holds the type of
    the body for each status, None where there is none. `versioned`: a GET answers with an ETag, a
    write takes If-Match or If-None-Match."""

    method: str
    path: str
    operation_id: str
    tag: str
    summary: str
    access: Access
    handler: Handler[Q, B] | None = None
    query: type[Q]
    body: Any = None
    content_type: str = "application/json"
    other_bodies: Mapping[str, Any] = {}
    """By content type, what the body may be instead."""
    headers: Mapping[str, Any] = {}
    """By name, the types of the request's headers, without those of versions."""
    answers: Mapping[int, Any]
    answer_type: str = "application/json"
    errors: Sequence[type[HubbubError]] = ()
    versioned: bool = False
    tag_pattern: str = r'"[0-9]{1,15}"|[0-9]{1,15}'
    """Of its ETags."""
    max_body_bytes: int = 256 * 1024
    payloads: bool = False
    """The answer holds what people sent, or what reaches them: not for viewers."""
    own: bool = False
    """Concerns the caller's own token only: for viewers, too."""
    reads_itself: bool = False
    """The handler reads the raw body; `body` only describes it."""

    @property
    def viewable(self) -> bool:
        """Whether viewers may ask for it, too."""
        reads = self.method == "GET" and self.access in (Access.SERVICE, Access.ADMIN)
        return self.own or (reads and not self.payloads)

    @property
    def segments(self) -> tuple[str, ...]:
        return tuple(self.path.split("/")[1:])

    @property
    def parameters(self) -> list[str]:
        return [part[1:-1] for part in self.segments if part.startswith("{")]

    def respond(self, result: Any) -> AdminResponse:
        """What a handler returned, as a response."""
        if isinstance(result, AdminResponse):
            return result
        if isinstance(result, Versioned):
            return AdminResponse(result.value, 201 if result.created else 200, result.version)
        return AdminResponse(result, min(self.answers))


AnyRoute = Route[Any, Any]


class Routes(list[AnyRoute]):
    """Routes that have the beginning of their paths and other things in common."""

    def __init__(
        self,
        prefix: str,
        tag: str,
        access: Access,
        errors: Sequence[type[HubbubError]] = (),
    ) -> None:
        super().__init__()
        self._prefix = prefix
        self._common = {"tag": tag, "access": access, "errors": errors, "query": NoQuery}

    def describe(
        self, method: str, path: str, operation_id: str, summary: str, **more: Any
    ) -> None:
        """Add a route that another part of the listener serves."""
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
        """Decorates a handler. The operation has its name, the summary is the first paragraph of
        its docstring, `query` and `body` are the types in `AdminRequest[…]`, and the type that it
        returns is that of the answer: `Versioned` means that the route has versions, None that
        there is no body. `more` overrides any of it."""

        def add(handler: H) -> H:
            hints = get_type_hints(handler, include_extras=True)
            query, body = get_args(hints["request"])
            described = {
                "handler": handler,
                "query": query,
                "body": None if body is type(None) else body,
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
    hold any character, also an encoded '/'."""

    def __init__(self, routes: Sequence[AnyRoute]) -> None:
        self._by_length: dict[int, list[AnyRoute]] = {}
        for route in routes:
            if route.handler is not None:
                self._by_length.setdefault(len(route.segments), []).append(route)

    def find(self, method: str, segments: Sequence[str]) -> tuple[AnyRoute, dict[str, str]]:
        """Raises `NotFound`, `MethodNotAllowed`."""
        allowed: list[str] = []
        for route in self._by_length.get(len(segments), ()):
            values = _match(route.segments, segments)
            if values is None:
                continue
            if route.method == method or (route.method == "GET" and method == "HEAD"):
                return route, values
            allowed.append(route.method)
        if allowed:
            right = sorted({*allowed, *(["HEAD"] if "GET" in allowed else [])})
            raise MethodNotAllowed(
                f"{method} is not for this path; use {' or '.join(right)}", right
            )
        raise NotFound(f"there is nothing at /{'/'.join(segments)}; see /openapi.json")


def _match(pattern: Sequence[str], segments: Sequence[str]) -> dict[str, str] | None:
    values: dict[str, str] = {}
    for expected, given in zip(pattern, segments, strict=True):
        if expected.startswith("{"):
            if not given:
                return None
            values[expected[1:-1]] = given
        elif expected != given:
            return None
    return values
