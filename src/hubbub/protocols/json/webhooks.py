"""The JSON of plain webhooks: requests and views. Secrets are never shown."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from hubbub.domain.callbacks import MAX_URL_CHARS, check_callback
from hubbub.domain.fields import NAME_SCHEMA
from hubbub.domain.names import check_name
from hubbub.domain.payloads import read_json
from hubbub.domain.webhooks import (
    MAX_SECRET_BYTES,
    Algorithm,
    Kind,
    State,
    WantedWebhook,
    Webhook,
    WebhookStatus,
)
from hubbub.protocols.checks import Start, parse_start
from hubbub.protocols.light import read_key, read_secret


class WebhookOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Repeating a request with the same channel and callback changes the webhook, which keeps its
    cursor."""

    channel: Annotated[str, Meta(extra_json_schema=NAME_SCHEMA)]
    callback: Annotated[
        str,
        Meta(
            description="Where the messages go: http or https.",
            extra_json_schema={"maxLength": MAX_URL_CHARS},
        ),
    ]
    secret: (
        Annotated[
            str,
            Meta(
                description="Signs what is sent.",
                extra_json_schema={"minLength": 1, "maxLength": MAX_SECRET_BYTES},
            ),
        ]
        | None
    ) = None
    algorithm: Annotated[Algorithm, Meta(description="Of the signature.")] = "sha256"
    key: (
        Annotated[str, Meta(description="Encrypts what is sent: 16 to 64 bytes in base64url.")]
        | None
    ) = None
    lease_seconds: (
        Annotated[
            float,
            Meta(
                description="It ends by itself; without one it does not.",
                extra_json_schema={"minimum": 0, "maximum": 10**9},
            ),
        ]
        | None
    ) = None
    start: Annotated[
        str,
        Meta(
            description="`new`, `first`, or the serial behind which a new one begins.",
            extra_json_schema={"pattern": "^(new|first|[0-9]{1,18})$"},
        ),
    ] = "new"


_order = msgspec.json.Decoder(WebhookOrder)


def read_order(body: bytes) -> tuple[WantedWebhook, Start]:
    """Returns the webhook, and the start position of a new one. Raises `Malformed`, `BadRequest`,
    `InvalidName`."""
    said = read_json(
        _order, body, 'a webhook, like {"channel": "orders", "callback": "https://example.org/in"}'
    )
    check_callback(said.callback)
    wanted = WantedWebhook(
        kind="plain",
        channel=check_name(said.channel, "channel"),
        callback=said.callback,
        secret=read_secret(said.secret),
        algorithm=said.algorithm,
        key=read_key(said.key),
        lease_seconds=said.lease_seconds,
    )
    return wanted, parse_start(said.start, "start")


class WebhookStatusView(msgspec.Struct, frozen=True, rename="camel"):
    """The status of a webhook, as known to its driver. `lag` counts undelivered messages,
    `attempts` the attempts of the current message, `delivered` and `failures` the requests since
    the driver started. `breaker` is the state of the callback host's circuit breaker: while it is
    open, no requests are sent there. `deadLetters` counts all messages that were given up. Times
    are in ms since 1970."""

    lag: int
    delivered: int
    attempts: int
    failures: int
    last_status: int | None
    last_error: str | None
    last_latency_seconds: float | None
    last_delivered_at: int | None
    next_try_at: int | None
    breaker: Literal["closed", "open", "probing"]
    dead_letters: int


class WebhookView(msgspec.Struct, frozen=True, rename="camel"):
    """The destination of a channel's messages. `topic` is the subscriber's name for the channel.
    `owner` is the creator: `u:` and a user id, or the level of a caller without a user id. `status`
    is missing if it was not requested, or no driver runs the webhook at the moment. Times are in ms
    since 1970."""

    id: str
    kind: Kind
    channel: str
    callback: str
    topic: str
    state: State
    signed: bool
    encrypted: bool
    created_at: int
    expires_at: int | None
    owner: str | None
    status: WebhookStatusView | None = None


def view_of(webhook: Webhook, status: WebhookStatus | None = None) -> WebhookView:
    view = msgspec.convert(webhook, WebhookView, from_attributes=True)
    if status is None:
        return view
    shown = msgspec.convert(status, WebhookStatusView, from_attributes=True)
    return msgspec.structs.replace(view, status=shown)
