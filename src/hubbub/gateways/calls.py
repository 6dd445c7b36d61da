"""What the doors behind the listener share: a request with who made it, and what to say of a wrong
path or method."""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hubbub.domain.errors import Malformed, MethodNotAllowed, NotFound
from hubbub.domain.permissions import Identity
from hubbub.engine.hub import Hub
from hubbub.gateways.http import Request, Target

Q = TypeVar("Q", bound=msgspec.Struct)
T = TypeVar("T")
_TOKENS = ("token", "access_token")
"""Parameters that every path takes."""
_TRUE = frozenset(("1", "true", "yes", "on", ""))
TOPIC_KEY_HEADER = "Hubbub-Topic-Key"
"""In a header rather than in the URL, which ends up in logs."""
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
"""`protocols.checks.check_event_name` says what is wrong with one."""


class NoQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The path takes no parameters."""


class HubRequest:
    """A request, and who made it in which hub."""

    __slots__ = ("_target", "hub", "identity", "request")

    def __init__(self, hub: Hub, identity: Identity, request: Request, target: Target) -> None:
        self.hub = hub
        self.identity = identity
        self.request = request
        self._target = target

    @property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        """All of the query, as it stands there."""
        return self._target.query

    def expect(self, *methods: bytes) -> None:
        """Raises `MethodNotAllowed`."""
        if self.request.method not in methods:
            raise wrong_method(self.request, *(method.decode() for method in methods))

    def query(self, kind: type[Q]) -> Q:
        """The parameters, of which there may be no others: a name that is misspelt must not pass
        for one that was left out. Raises `Malformed`."""
        known = kind.__struct_encode_fields__
        found: dict[str, str] = {}
        for name, value in self._target.query:
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
    """A parameter that may be left out. (As `None` it could be written as the text `null`.)"""
    return None if value is UNSET else value


def topic_key_of(request: Request) -> str | None:
    """The key with which the caller publishes to a registered topic."""
    return request.header(_TOPIC_KEY)


def flag(value: str | None, name: str) -> bool:
    """A parameter that is on, off, or left out. Raises `Malformed`."""
    if value is None or value.lower() in _FALSE:
        return False
    if value.lower() in _TRUE:
        return True
    raise Malformed(f"{name}={value!r} is neither true nor false")


def wrong_method(request: Request, *right: str) -> MethodNotAllowed:
    return MethodNotAllowed(
        f"{request.method.decode('latin-1')} is not for this path; use {' or '.join(right)}", right
    )


def no_path(request: Request) -> NotFound:
    path = request.url.partition(b"?")[0].decode("latin-1")
    return NotFound(f"there is nothing at {path}; see docs/protocol.md for the paths")
