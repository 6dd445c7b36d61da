"""Commands over HTTP: an hCommand in, its hResult out."""

from __future__ import annotations

import msgspec

from hubbub.domain.commands.objects import too_deep, write_result
from hubbub.domain.errors import Malformed, TooLarge
from hubbub.engine.commands.asking import Asker
from hubbub.engine.hub import Hub
from hubbub.engine.node import Node
from hubbub.gateways.calls import HubRequest, NoQuery
from hubbub.gateways.credentials import require_identity
from hubbub.gateways.exchange import Exchange
from hubbub.gateways.http import Request, Target

_ENVELOPE_BYTES = 64 * 1024
"""Of an hCommand beside the message in it, which escapes may make twice as long. JSON that is read
at once holds up all tenants."""
_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()


class CommandsApi:
    """The path /v1/hubs/{hub}/commands."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def handle(self, request: Request, target: Target, exchange: Exchange, hub: Hub) -> None:
        """Whatever the status of the hResult, the answer is 200. Raises `MethodNotAllowed`,
        `TooLarge` and `Malformed`."""
        identity = require_identity(request, target, hub, self._node)
        call = HubRequest(hub, identity, request, target)
        call.expect(b"POST")
        call.query(NoQuery)
        most = 2 * self._node.limits.message_bytes + _ENVELOPE_BYTES
        if len(request.body) > most:
            raise TooLarge(
                f"the hCommand has {len(request.body)} bytes; at most {most} are allowed"
            )
        try:
            given = _decoder.decode(request.body)
        except (msgspec.DecodeError, RecursionError) as error:
            raise Malformed(f"the body is no JSON: {error}") from None
        exchange.complete(self._execute(Asker(hub, identity, technology="http"), given, exchange))

    async def _execute(self, asker: Asker, given: object, exchange: Exchange) -> None:
        result = await self._node.commands.answer(asker, given)
        try:
            encoded = _encoder.encode(write_result(result))
        except RecursionError:
            encoded = _encoder.encode(write_result(too_deep(result)))
        exchange.answer_json(encoded)
