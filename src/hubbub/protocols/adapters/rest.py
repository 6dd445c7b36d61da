"""What an adapter over HTTP is sent: a message in JSON, with the address that it goes to."""

from __future__ import annotations

import msgspec

from hubbub.domain.communication.messages import PeerMessage
from hubbub.domain.communication.peers import Address
from hubbub.domain.communication.wire import MessageBody, to_wire


class Push(msgspec.Struct, frozen=True):
    message: MessageBody
    address: Address


_encode = msgspec.json.Encoder().encode


def push_body(message: PeerMessage, address: Address) -> bytes:
    return _encode(Push(to_wire(message), address))
