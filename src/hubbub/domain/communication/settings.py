"""Settings of a hub's communication: adapters, callbacks, and what holds for all messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from msgspec import Meta

from hubbub.domain.callbacks import MAX_URL_CHARS
from hubbub.domain.communication.routing import RoutingRule, rule_problem
from hubbub.domain.fields import Headers, Name
from hubbub.domain.setting import Setting

CallbackUrl = Annotated[
    str,
    Meta(
        description="`http://…` or `https://…`",
        extra_json_schema={
            "maxLength": MAX_URL_CHARS,
            "pattern": r"^https?://(?![^:/]*[^.:/]{64})(?![^:/]{254})[A-Za-z0-9]+([.-][A-Za-z0-9]+)*(:[1-9][0-9]{0,3})?(/[!-\[\]-~]*)?$",
        },
    ),
]
Role = Literal["notify", "peerInfo", "collectiveInfo", "peerAuth"]


class CommunicationSettings(Setting, frozen=True):
    """Messages to people and tools."""

    client_send: bool = False
    """Users may send messages, each in their own name."""
    tokens: Literal["off", "optional", "required"] = "off"
    """Whether messages of peers need a security token: never, only one that is given must hold, or
    always."""
    on_invalid: Literal["hold", "discard"] = "hold"
    """What becomes of a message whose token does not hold: it waits until its sender logs in, or it
    is dropped."""
    token_seconds: Annotated[int, Meta(ge=1, le=86_400 * 30)] = 600
    """How long a token of a peer holds."""


class AdapterSettings(Setting, frozen=True):
    """An adapter of a hub. The values of `secrets` are secret: answers show `(hidden)`, which
    leaves a value as it is when it is sent back with the same `kind` and `settings`."""

    kind: Name
    """Which adapter of the server: `email`, `rest` …"""
    settings: dict[str, Any] = {}
    """What this kind of adapter needs, such as the host of a mail server."""
    secrets: Annotated[dict[str, str], Meta(max_length=20)] = {}
    """Passwords and keys, by the names of their settings."""
    interval_ms: Annotated[int, Meta(ge=1, le=86_400_000 * 30)] | None = None
    """Of an adapter that is pulled: how often. Without it, only on request."""
    delete_if_successful: bool = False
    """Of an adapter that is pulled: it is removed after its first message."""
    awaits: Annotated[str, Meta(max_length=256)] = ""
    """Of an adapter that is pulled: the id of the message whose answer it is there for. When that
    message times out, the adapter is pulled once more and removed."""
    transient: bool = False
    """Of an input adapter: what comes by it is answered at once, is not in the log, and may be lost
    in a crash."""
    max_parallel: Annotated[int, Meta(ge=1, le=1000)] = 30
    """Deliveries of an output adapter that are under way at the same time on a node."""


class CallbackSettings(Setting, frozen=True):
    """A server that is asked about peers, or told of messages. `headers` are as those of an auth
    provider."""

    url: CallbackUrl
    """Messages are posted here; questions go to `/peerInfo/{id}`, `/collectiveInfo/{id}` and
    `/peerAuth/{id}` below it."""
    roles: Annotated[tuple[Role, ...], Meta(min_length=1, max_length=4)] = ("notify",)
    """What it is for."""
    headers: Headers = {}
    """Headers to send along, for example a key; their values are secret."""


def communication_problems(value: object) -> Iterator[tuple[str, str]]:
    """Problems beyond the types, by key."""
    match value:
        case RoutingRule():
            if (problem := rule_problem(value)) is not None:
                yield problem
        case AdapterSettings():
            if value.awaits and value.interval_ms is None:
                yield "awaits", "needs intervalMs: nobody would look for the answer"
