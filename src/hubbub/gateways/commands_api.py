"""Commands over HTTP: an hCommand in, its hResult out."""

from __future__ import annotations

import msgspec

from hubbub.domain.commands.objects import write_result
from hubbub.domain.errors import Malformed
from hubbub.engine.commands.asking import Asker
from hubbub.engine.hub import Hub
from hubbub.engine.node import Node
from hubbub.gateways.calls import HubRequest, NoQuery
from hubbub.gateways.credentials import require_identity
from hubbub.gateways.exchange import Exchange
from hubbub.gateways.http import Request, Target

_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()


class CommandsApi:
    """The path /v1/hubs/{hub}/commands."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def handle(self, request: Request, target: Target, exchange: Exchange, hub: Hub) -> None:
        """Whatever the status of the hResult, the answer is 200. Raises `MethodNotAllowed` and
        `Malformed`."""
        identity = require_identity(request, target, hub, self._node)
        call = HubRequest(hub, identity, request, target)
        call.expect(b"POST")
        call.query(NoQuery)
        try:
            given = _decoder.decode(request.body)
        except (msgspec.DecodeError, RecursionError) as error:
            raise Malformed(f"the body is no JSON: {error}") from None
        exchange.complete(self._execute(Asker(hub, identity, technology="http"), given, exchange))

    async def _execute(self, asker: Asker, given: object, exchange: Exchange) -> None:
        result = await self._node.commands.answer(asker, given)
        exchange.answer_json(_encoder.encode(write_result(result)))
