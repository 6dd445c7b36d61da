"""The request to a REST adapter's URL: a message in JSON with its destination address."""

from __future__ import annotations

import msgspec

from hubbub.domain.communication.messages import PeerMessage
from hubbub.domain.communication.peers import Address
from hubbub.domain.communication.wire import MessageBody, to_wire


class RestMessage(msgspec.Struct, frozen=True):
    message: MessageBody
    address: Address


_encode = msgspec.json.Encoder().encode


def push_body(message: PeerMessage, address: Address) -> bytes:
    return _encode(RestMessage(to_wire(message), address))
