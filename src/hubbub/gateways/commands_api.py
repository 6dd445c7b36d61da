"""Commands over HTTP: an hCommand in, its hResult out."""

from __future__ import annotations

from typing import Any

import msgspec

from hubbub.domain.commands.objects import too_deep, write_result
from hubbub.domain.errors import Malformed, TooLarge
from hubbub.engine.commands.asking import Asker
from hubbub.engine.commands.service import Commands
from hubbub.engine.node import Node
from hubbub.gateways.calls import HubRequest, NoQuery
from hubbub.gateways.routes import Access, Routes

_ENVELOPE_BYTES = 64 * 1024
"""Maximum size of an hCommand besides its message, whose escapes may double it. Decoding JSON
blocks the event loop for all tenants."""
_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()


class CommandResult(msgspec.Struct, frozen=True):
    """`cmd` and `reqid` as they were sent; `result` is data, or a text for a status other than
    0."""

    cmd: Any
    reqid: Any
    status: int
    result: Any | msgspec.UnsetType = msgspec.UNSET


COMMAND_API = Routes("/v1/hubs/{hub}", "Services", Access.HUB)


@COMMAND_API.serve("POST", "/commands", body=Any, answers={200: CommandResult}, errors=(TooLarge,))
async def send_command(node: Node, request: HubRequest[NoQuery]) -> bytes:
    """Have the hub or a client carry out a command; the answer is its hResult, whatever its
    status."""
    body = request.request.body
    most = 2 * node.limits.message_bytes + _ENVELOPE_BYTES
    if len(body) > most:
        raise TooLarge(f"the hCommand has {len(body)} bytes; at most {most} are allowed")
    try:
        given = _decoder.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Malformed(f"the body is no JSON: {error}") from None
    asker = Asker(request.hub, request.identity, technology="http")
    result = await node.feature(Commands).answer(asker, given)
    try:
        return _encoder.encode(write_result(result))
    except RecursionError:
        return _encoder.encode(write_result(too_deep(result)))
