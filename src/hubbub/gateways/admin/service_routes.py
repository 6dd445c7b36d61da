"""Routes of services and streams, for the description; `gateways.services_api` serves them."""

from __future__ import annotations

from typing import Any

import msgspec

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
from hubbub.gateways.admin.routes import Access, Routes
from hubbub.gateways.services_api import CallQuery, SubmitQuery


class Submitted(Open, frozen=True):
    msg_id: str


class CommandResult(msgspec.Struct, frozen=True):
    """`cmd` and `reqid` as they were sent; `result` is data, or a text for a status other than
    0."""

    cmd: Any
    reqid: Any
    status: int
    result: Any | msgspec.UnsetType = msgspec.UNSET


SERVICE_ROUTES = Routes("/v1/hubs/{hub}", "Services", Access.HUB)
SERVICE_ROUTES.describe(
    "POST", "/rpc/{method}", "callService",
    "Call a method of a service; the body is the payload, and the answer's is that of the service",
    query=CallQuery, body=Any, content_type="*/*", answers={200: Any}, answer_type="*/*",
    errors=(
        NotPermitted, ServiceNotFound, ServiceRefused, ServiceTimeout, ServiceFailed,
        ServiceUnavailable, TooLarge, Limited,
    ),
)  # fmt: skip
SERVICE_ROUTES.describe(
    "POST", "/commands", "sendCommand",
    "Have the hub or a client carry out a command; the answer is its hResult, whatever its status",
    body=Any, answers={200: CommandResult}, errors=(TooLarge,),
)  # fmt: skip
SERVICE_ROUTES.describe(
    "POST", "/streams/{stream}/events", "submitEvent",
    "Hand an event to a stream; the body is the payload", query=SubmitQuery, body=Any,
    content_type="*/*", answers={200: Submitted},
    errors=(NotPermitted, StreamUnavailable, TooLarge, Limited),
)  # fmt: skip
