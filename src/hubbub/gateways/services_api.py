"""Services over HTTP: call a method, hand an event to a stream."""

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
from hubbub.domain.payloads import untouched_payload
from hubbub.domain.requests import Call, Enqueue
from hubbub.engine.node import Node
from hubbub.engine.services.calls import Services
from hubbub.gateways.calls import EventName, HubRequest
from hubbub.gateways.public_shapes import Open
from hubbub.gateways.routes import Access, Routes
from hubbub.protocols.checks import check_event_name

MAX_CALL_SECONDS = 300.0


class CallQuery(msgspec.Struct, frozen=True):
    timeout: Annotated[
        float,
        Meta(ge=0, le=MAX_CALL_SECONDS, description="Seconds to wait for the service at most."),
    ] = 0


class SubmitQuery(msgspec.Struct, frozen=True):
    event: EventName = ""


class Submitted(Open, frozen=True):
    """The event is stored."""

    msg_id: str


SERVICE_API = Routes("/v1/hubs/{hub}", "Services", Access.HUB)


@SERVICE_API.serve(
    "POST", "/rpc/{method}", body=Any, content_type="*/*", answers={200: Any}, answer_type="*/*",
    gives_up=True,
    errors=(
        NotPermitted, ServiceNotFound, ServiceRefused, ServiceTimeout, ServiceFailed,
        ServiceUnavailable, TooLarge, Limited,
    ),
)  # fmt: skip
async def call_service(node: Node, request: HubRequest[CallQuery]) -> None:
    """Call a method of a service; the body is the payload, and the answer's is that of the
    service."""
    payload, content_type = _content(request)
    call = Call(request.path["method"], payload, content_type, request.query.timeout)
    answer = await node.feature(Services).call(request.hub, request.identity, call)
    request.exchange.answer(200, answer.payload, answer.content_type)


@SERVICE_API.serve(
    "POST", "/streams/{stream}/events", body=Any, content_type="*/*", answers={200: Submitted},
    errors=(NotPermitted, StreamUnavailable, TooLarge, Limited),
)  # fmt: skip
async def submit_event(node: Node, request: HubRequest[SubmitQuery]) -> bytes:
    """Hand an event to a stream; the body is the payload."""
    event = check_event_name(request.query.event)
    submitted = Enqueue(request.path["stream"], event, *_content(request))
    message_id = await node.feature(Services).submit(
        request.hub, request.identity, submitted, "http"
    )
    return msgspec.json.encode(Submitted(msg_id=message_id))


def _content(request: HubRequest[Any]) -> tuple[bytes, str]:
    sent = request.request
    return untouched_payload(sent.body, sent.header(b"content-type"))
