"""Communication settings of a hub: adapters, callbacks, and options for all messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

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
    """Users may send messages, each under their own name."""
    tokens: Literal["off", "optional", "required"] = "off"
    """Whether messages of peers need a security token: never, only a given one must be valid, or
    always."""
    on_invalid: Literal["hold", "discard"] = "hold"
    """How a message with an invalid token is handled: held until its sender logs in, or
    discarded."""
    token_seconds: Annotated[int, Meta(ge=1, le=86_400 * 30)] = 600
    """Lifetime of a peer's token."""
    strangers: Annotated[str, Meta(max_length=256)] = ""
    """The adapter, of the kind `email`, by which peers' answers go to people who are no peers and
    wrote to the hub by e-mail. Empty: such people get no answer."""


MOST_PER_LOOK: Final = 1000
"""The most messages that a polled adapter takes in one interval."""


class AdapterSettings(Setting, frozen=True):
    """An adapter of a hub. The values of `secrets` are secret: answers show `(hidden)`, which
    leaves a value as it is when it is sent back with the same `kind` and `settings`."""

    kind: Name
    """The kind of adapter that the server offers: `email`, `rest` …"""
    settings: dict[str, Any] = {}
    """Settings of this kind of adapter, such as the host of a mail server."""
    secrets: Annotated[dict[str, str], Meta(max_length=20)] = {}
    """Passwords and keys, by the names of their settings."""
    interval_ms: Annotated[int, Meta(ge=1, le=86_400_000 * 30)] | None = None
    """Polled adapters: the polling interval. Without it, only on request."""
    delete_if_successful: bool = False
    """Polled adapters: the adapter is removed after its first message."""
    awaits: Annotated[str, Meta(max_length=256)] = ""
    """Polled adapters: the id of the message whose reply the adapter polls for. The messages that
    it finds refer to that message. When the message's time to live is over, the adapter is polled
    once more and removed."""
    max_per_look: Annotated[int, Meta(ge=1, le=MOST_PER_LOOK)] | None = None
    """Polled adapters: the most messages taken in one interval or on one request. Default: 1 for
    `rest-pull`, 1000 for others."""
    transient: bool = False
    """Input adapters: received messages are confirmed at once, are not logged, and may be lost in a
    crash."""
    max_parallel: Annotated[int, Meta(ge=1, le=1000)] = 30
    """Output adapters: the most deliveries in flight at the same time on a node."""


class CallbackSettings(Setting, frozen=True):
    """A server that resolves peers or receives messages. `headers` are as those of an auth
    provider."""

    url: CallbackUrl
    """Messages are posted here; lookups go to `/peerInfo/{id}`, `/collectiveInfo/{id}` and
    `/peerAuth/{id}` below it."""
    roles: Annotated[tuple[Role, ...], Meta(min_length=1, max_length=4)] = ("notify",)
    """The requests that it receives."""
    headers: Headers = {}
    """Headers to send along, for example a key; their values are secret."""


def communication_problems(value: object) -> Iterator[tuple[str, str]]:
    """Yields (key, problem) for values that have the right type but are invalid."""
    match value:
        case RoutingRule():
            if (problem := rule_problem(value)) is not None:
                yield problem
        case AdapterSettings():
            if value.awaits and value.interval_ms is None:
                yield "awaits", "needs intervalMs: nobody would look for the answer"
