"""Services behind a hub: clients' calls, and streams of events."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from hubbub.domain.errors import InvalidName
from hubbub.domain.names import MAX_NAME_CHARS, check_name
from hubbub.domain.patterns import matches, matches_any
from hubbub.domain.permissions import Identity, granted
from hubbub.domain.rules import RpcRoute

STREAM_NAMESPACE = "stream"
"""The permissions and journal entries of a stream `clicks` use `stream:clicks`."""


class ServiceCall(msgspec.Struct, frozen=True):
    """A call as the service receives it: method, payload and caller."""

    hub: str
    method: str
    payload: bytes
    content_type: str
    user_id: str | None = None
    session_id: str | None = None


class ServiceReply(msgspec.Struct, frozen=True):
    payload: bytes
    content_type: str


class StreamEvent(msgspec.Struct, frozen=True):
    """An event in a stream, with its submitter and the time of submission (milliseconds)."""

    id: str
    hub: str
    stream: str
    event: str
    payload: bytes
    content_type: str
    submitted_at: int
    user_id: str | None = None
    session_id: str | None = None
    technology: str | None = None

    @property
    def channel(self) -> str:
        return stream_channel(self.stream)


def stream_channel(stream: str) -> str:
    return f"{STREAM_NAMESPACE}:{stream}"


def check_method(method: str) -> str:
    """Raises `InvalidName`."""
    return check_name(method, "method")


def check_stream(stream: str) -> str:
    """The name must leave room for the namespace. Raises `InvalidName`."""
    if len(stream) > MAX_NAME_CHARS - len(STREAM_NAMESPACE) - 1:
        raise InvalidName(f"the stream name {stream[:20]!r}… has {len(stream)} characters")
    return check_name(stream, "stream")


def may_call(identity: Identity, method: str) -> bool:
    return identity.trusted or matches_any(identity.rpcs, method)


def may_submit(identity: Identity, stream: str) -> bool:
    channel = stream_channel(stream)
    return identity.trusted or granted(identity.grants, "publish", channel)


def route_for(routes: Mapping[str, RpcRoute], method: str) -> RpcRoute | None:
    """The route with the longest matching pattern; on a tie, the first by name."""
    found = [
        (-len(route.method), name)
        for name, route in routes.items()
        if matches(route.method, method)
    ]
    return routes[min(found)[1]] if found else None
