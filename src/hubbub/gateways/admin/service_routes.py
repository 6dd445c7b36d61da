"""Routes of services and streams, for the description; `gateways.services_api` serves them."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from hubbub.domain.errors import (
    Limited,
    NotPermitted,
    ServiceFailed,
    ServiceNotFound,
    ServiceRefused,
    ServiceTimeout,
    ServiceUnavailable,
    StreamUnavailable,
    TooLarge,
)
from hubbub.gateways.admin.public_shapes import Open
from hubbub.gateways.admin.routes import Access, AnyRoute, Route

_HUB = "/v1/hubs/{hub}"


class CallQuery(msgspec.Struct, frozen=True):
    timeout: Annotated[
        float, Meta(ge=0, le=300, description="Seconds to wait for the service at most.")
    ] = 0


class SubmitQuery(msgspec.Struct, frozen=True):
    event: Annotated[
        str,
        Meta(
            max_length=255,
            description="What happened, in a word.",
            extra_json_schema={"pattern": "^[A-Za-z0-9._-]*$"},
        ),
    ] = ""


class Submitted(Open, frozen=True):
    msg_id: str


SERVICE_ROUTES: list[AnyRoute] = [
    Route(
        method="POST", path=f"{_HUB}/rpc/{{method}}", operation_id="callService", tag="Services",
        summary="Call a method of a service; the body is the payload, and the answer's is that of "
        "the service", access=Access.HUB, query=CallQuery, body=Any, content_type="*/*",
        answers={200: Any}, answer_type="*/*",
        errors=(
            NotPermitted, ServiceNotFound, ServiceRefused, ServiceTimeout, ServiceFailed,
            ServiceUnavailable, TooLarge, Limited,
        ),
    ),
    Route(
        method="POST", path=f"{_HUB}/streams/{{stream}}/events", operation_id="submitEvent",
        tag="Services", summary="Hand an event to a stream; the body is the payload",
        access=Access.HUB, query=SubmitQuery, body=Any, content_type="*/*",
        answers={200: Submitted},
        errors=(NotPermitted, StreamUnavailable, TooLarge, Limited),
    ),
]  # fmt: skip
