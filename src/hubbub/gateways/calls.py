"""Shared by HTTP handlers: a request with its caller, its parameters, and errors for a wrong path
or method."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Annotated, Any, Generic, Protocol, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hubbub.domain.errors import Malformed, MethodNotAllowed, NotFound
from hubbub.domain.permissions import Identity
from hubbub.engine.hub import Hub
from hubbub.engine.node import Node
from hubbub.engine.sessions.session import Session
from hubbub.gateways.exchange import HttpExchange
from hubbub.gateways.http import ReceivedRequest, Target
from hubbub.gateways.outlet import Outlet
from hubbub.protocols.websub import TopicForm

Q = TypeVar("Q", bound=msgspec.Struct)
T = TypeVar("T")
C = TypeVar("C", bound=Outlet)
IdentifyCaller = Callable[[ReceivedRequest, Target, Hub, Node], Identity]
"""Raises the errors of an invalid or missing token."""
_TOKENS = ("token", "access_token")
"""Parameters accepted by every path."""
_TRUE = frozenset(("1", "true", "yes", "on", ""))
TOPIC_KEY_HEADER = "Hubbub-Topic-Key"
"""Sent in a header, since URLs end up in logs."""
_TOPIC_KEY = TOPIC_KEY_HEADER.lower().encode()
_FALSE = frozenset(("0", "false", "no", "off"))


Digits = Annotated[
    str, Meta(pattern=r"^[0-9]{1,18}\Z", extra_json_schema={"pattern": "^[0-9]{1,18}$"})
]
"""A serial in a query."""
EventName = Annotated[
    str,
    Meta(
        description="What happened, in a word.",
        extra_json_schema={"maxLength": 255, "pattern": r"^[^\u0000-\u001f\u007f-\u009f]*$"},
    ),
]
"""Validated by `protocols.checks.check_event_name`."""


class NoQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The path takes no parameters."""


class HubCall(msgspec.Struct, eq=False):
    """A request and its caller in a hub."""

    hub: Hub
    identity: Identity
    request: ReceivedRequest
    target: Target


class Links(Protocol):
    def __call__(
        self,
        request: ReceivedRequest,
        exchange: HttpExchange,
        hub: Hub,
        channel: str,
        form: TopicForm = "messages",
    ) -> str:
        """The complete header line that identifies a channel as a WebSub topic."""


class NamesOrigin(Protocol):
    def __call__(self, request: ReceivedRequest, origin: str, hub: str, /) -> bool:
        """Whether the origin of a page is the server's own, or is named among those that the hub
        allows; `*` and `null` name nobody."""


class BeginStream(Protocol):
    def __call__(
        self,
        request: ReceivedRequest,
        exchange: HttpExchange,
        hub: Hub,
        identity: Identity,
        make: Callable[[asyncio.Transport, int], C],
        begin: Callable[[C, Session], None],
        /,
    ) -> None:
        """Takes the connection over for a stream, which makes the response itself, opens its
        session, and calls `begin`. `make` gets the transport and the size of the buffer. Errors of
        the session and of `begin` are told to the stream. Raises `Overloaded`, `RateLimited`."""


class Doors(Protocol):
    """The objects that serve the hub's own paths, for their handlers."""

    links: Links
    names_origin: NamesOrigin
    begin_stream: BeginStream

    async def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Returns the result of work that may take long; it is cancelled when the client
        disconnects or the server stops. Raises `GoingAway`."""


class HubRequest(HubCall, Generic[Q], eq=False):
    """A request to one of the hub's own paths, with its route; the body is `request.body`."""

    exchange: HttpExchange
    doors: Doors
    path: Mapping[str, str]
    """The decoded names in the path."""
    query: Q


def expect(request: ReceivedRequest, *methods: bytes) -> None:
    """Raises `MethodNotAllowed`."""
    if request.method not in methods:
        right = [method.decode() for method in methods]
        raise MethodNotAllowed(
            f"{request.method.decode('latin-1')} is not for this path; use {' or '.join(right)}",
            right,
        )


def read_query(target: Target, kind: type[Q]) -> Q:
    """Decodes the parameters. Raises `Malformed`, also for unknown ones: a misspelt name must not
    be ignored."""
    known = kind.__struct_encode_fields__
    found: dict[str, str] = {}
    for name, value in target.query:
        if name in _TOKENS:
            continue
        if name not in known:
            may = f"it takes {', '.join(known)}" if known else "it takes none"
            raise Malformed(f"this path has no parameter {name[:40]!r}; {may}")
        if name in found:
            raise Malformed(f"the parameter {name!r} is there twice; give it once")
        found[name] = value
    try:
        return msgspec.convert(found, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Malformed(f"in the query: {str(error).replace('`$.', '`')}") from None


def given(value: T | UnsetType) -> T | None:
    """An optional parameter. (A type with `None` would also accept the text `null`.)"""
    return None if value is UNSET else value


def topic_key_of(request: ReceivedRequest) -> str | None:
    """The key with which the caller publishes to a registered topic."""
    return request.header(_TOPIC_KEY)


def flag(value: str | None, name: str) -> bool:
    """A boolean parameter; None if it is missing. Raises `Malformed`."""
    if value is None or value.lower() in _FALSE:
        return False
    if value.lower() in _TRUE:
        return True
    raise Malformed(f"{name}={value!r} is neither true nor false")


def no_path(request: ReceivedRequest) -> NotFound:
    path = request.url.partition(b"?")[0].decode("latin-1")
    return NotFound(f"there is nothing at {path}; see docs/protocol.md for the paths")
