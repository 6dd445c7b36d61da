"""Messages to peers over HTTP: sending them, and handing in what came by an adapter."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from hubbub.domain.communication.wire import from_wire
from hubbub.domain.errors import NotPermitted
from hubbub.domain.permissions import ANONYMOUS
from hubbub.engine.communication.http_inputs import HttpInputs
from hubbub.engine.hub import Hub
from hubbub.engine.node import Node
from hubbub.gateways.calls import HubRequest, NoQuery, no_path, wrong_method
from hubbub.gateways.credentials import require_identity
from hubbub.gateways.exchange import Exchange
from hubbub.gateways.http import TEXT_UTF8, Request, Target

_encode = msgspec.json.Encoder().encode


class SendQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    transient: Annotated[
        bool, Meta(description="Answer at once; the message may be lost in a crash.")
    ] = False


class Sent(msgspec.Struct, frozen=True):
    """The message's id."""

    id: str


class CommunicationApi:
    """The paths /v1/hubs/{hub}/comm/messages and …/comm/input/{adapter}."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def handle(self, request: Request, target: Target, exchange: Exchange, hub: Hub) -> None:
        """Raises `NotFound`, `MethodNotAllowed`, `NotPermitted` and what is wrong with the
        message."""
        inputs, rest = self._node.communication.http_inputs, target.segments[4:]
        adapter = "/".join(rest[1:]) if rest[:1] == ("input",) else ""
        if inputs is not None and inputs.serves(hub, adapter):
            if request.method != b"POST":
                raise wrong_method(request, "POST")
            self._node.throttle.admit(hub.name, ANONYMOUS, request.address)
            exchange.run(self._receive(inputs, hub, rest[1], request, exchange))
            return
        identity = require_identity(request, target, hub, self._node)
        call = HubRequest(hub, identity, request, target)
        call.expect(b"POST")
        match target.segments[4:]:
            case ("messages",):
                exchange.complete(self._send(call))
            case ("input", adapter) if adapter:
                if not identity.trusted:
                    raise NotPermitted("only services hand in messages of adapters")
                call.query(NoQuery)
                exchange.complete(self._take_in(call, adapter))
            case _:
                raise no_path(request)

    async def _receive(
        self, inputs: HttpInputs, hub: Hub, adapter: str, request: Request, exchange: Exchange
    ) -> None:
        """The adapter itself says who may send it requests."""
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in request.headers.items()
        }
        answer = await inputs.receive(hub, adapter, headers, request.body)
        exchange.answer(answer.status, answer.body, TEXT_UTF8)

    async def _send(self, call: HubRequest) -> bytes:
        query = call.query(SendQuery)
        message = from_wire(call.request.body)
        communication = self._node.communication
        sent = await communication.send(call.hub, call.identity, message, query.transient)
        return _encode(Sent(sent))

    async def _take_in(self, call: HubRequest, adapter: str) -> bytes:
        message = from_wire(call.request.body)
        return _encode(Sent(await self._node.communication.take_in(call.hub, adapter, message)))
