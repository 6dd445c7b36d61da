"""Services over HTTP: call a method, hand an event to a stream."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from hubbub.domain.payloads import untouched_payload
from hubbub.domain.requests import Call as ServiceCall
from hubbub.domain.requests import Enqueue
from hubbub.engine.hub import Hub
from hubbub.engine.node import Node
from hubbub.gateways.calls import EventName, HubRequest, no_path
from hubbub.gateways.credentials import require_identity
from hubbub.gateways.exchange import Exchange
from hubbub.gateways.http import Request, Target
from hubbub.protocols.checks import check_event_name

MAX_CALL_SECONDS = 300.0
_NOT_GUESSED = "X-Content-Type-Options: nosniff\r\n"
"""What a service answers is its own: no browser shall take it for something else."""


class CallQuery(msgspec.Struct, frozen=True):
    timeout: Annotated[
        float,
        Meta(ge=0, le=MAX_CALL_SECONDS, description="Seconds to wait for the service at most."),
    ] = 0


class SubmitQuery(msgspec.Struct, frozen=True):
    event: EventName = ""


class ServicesApi:
    """Paths under /v1/hubs/{hub}/rpc/ and /v1/hubs/{hub}/streams/."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def handle(self, request: Request, target: Target, exchange: Exchange, hub: Hub) -> None:
        """Raises `NotFound` for paths that are not here."""
        identity = require_identity(request, target, hub, self._node)
        call = HubRequest(hub, identity, request, target)
        match target.segments[3:]:
            case ("rpc", method):
                call.expect(b"POST")
                exchange.run(self._call(call, exchange, method))
            case ("streams", stream, "events"):
                call.expect(b"POST")
                exchange.complete(self._submit(call, exchange, stream))
            case _:
                raise no_path(request)

    async def _call(self, call: HubRequest, exchange: Exchange, method: str) -> None:
        """The body is the payload, and the answer's body that of the service."""
        seconds = call.query(CallQuery).timeout
        payload, content_type = _content(call)
        answer = await self._node.services.call(
            call.hub, call.identity, ServiceCall(method, payload, content_type, seconds)
        )
        exchange.answer(200, answer.payload, answer.content_type, _NOT_GUESSED)

    async def _submit(self, call: HubRequest, exchange: Exchange, stream: str) -> None:
        event = check_event_name(call.query(SubmitQuery).event)
        payload, content_type = _content(call)
        submitted = Enqueue(stream, event, payload, content_type)
        message_id = await self._node.services.submit(call.hub, call.identity, submitted, "http")
        exchange.answer_json(b'{"msgID":"%b"}' % message_id.encode())


def _content(call: HubRequest) -> tuple[bytes, str]:
    return untouched_payload(call.request.body, call.request.header(b"content-type"))
