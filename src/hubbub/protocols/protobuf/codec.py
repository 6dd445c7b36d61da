"""The subprotocol hubbub.proto.v1: one Frame of spec/hubbub.proto in each binary message.

A unit is one envelope as an entry of the frame's list, so that concatenated units form a frame.
"""

from __future__ import annotations

from collections.abc import Sequence

from google.protobuf.message import DecodeError

from hubbub.domain.errors import HubbubError, Malformed
from hubbub.domain.messages import Message
from hubbub.domain.notices import Notice
from hubbub.domain.requests import Request, UndecodableRequest
from hubbub.protocols import hubbub_pb2 as pb
from hubbub.protocols.checks import check_frame
from hubbub.protocols.protobuf.documents import prepare_document
from hubbub.protocols.protobuf.events import (
    notice_payload,
    read_notice,
    read_request,
    request_payload,
)
from hubbub.protocols.protobuf.fast import message_payload, varint

_PUBLISH = pb.EventType.Publish
_EVENTS: dict[int, bytes] = {number: b"\x08" + varint(number) for number in pb.EventType.values()}
"""Field 1 of Envelope."""


class ProtobufCodec:
    """Codec for both sides: the hub decodes requests and encodes notices, the client the reverse.
    Stateless; one object serves all connections."""

    subprotocol = "hubbub.proto.v1"
    opcode = 2
    rid = None
    prepare = staticmethod(prepare_document)

    def decode(self, data: bytes) -> list[Request]:
        """The requests of one WebSocket message, in order."""
        try:
            # A slice is a list: iterating over the repeated field itself takes eight times as long.
            envelopes = pb.Frame.FromString(data).envelopes[:]
            if len(envelopes) == 1:
                envelope = envelopes[0]
                return read_request(envelope.event, envelope.payload)
            check_frame(len(envelopes))
        except DecodeError as error:
            return [UndecodableRequest(Malformed(f"not a frame: {error}"))]
        except HubbubError as error:
            return [UndecodableRequest(error)]
        if not envelopes:
            return [UndecodableRequest(Malformed("the frame has no envelope"))]
        return [request for each in envelopes for request in read_request(each.event, each.payload)]

    def encode_message(self, message: Message) -> bytes:
        return _unit(_PUBLISH, message_payload(message))

    def encode(self, notice: Notice) -> bytes:
        return _unit(*notice_payload(notice))

    def join(self, units: Sequence[bytes]) -> bytes:
        """The payload of one WebSocket message that holds these units."""
        return b"".join(units)

    def encode_request(self, request: Request) -> bytes:
        return _unit(*request_payload(request))

    def decode_notices(self, data: bytes) -> list[Notice]:
        """The notices of one WebSocket message. Unknown events are skipped, because a newer hub may
        send them."""
        try:
            envelopes = pb.Frame.FromString(data).envelopes[:]
            found = (read_notice(each.event, each.payload) for each in envelopes)
            return [notice for notice in found if notice is not None]
        except DecodeError as error:
            raise Malformed(f"the hub's frame cannot be read: {error}") from error


def _unit(event: int, payload: bytes) -> bytes:
    """Field 1 of Frame: an Envelope with the event as field 1 and the payload as field 2."""
    size = varint(len(payload))
    head = _EVENTS[event]
    around = varint(len(payload) + len(size) + len(head) + 1)
    return b"\x0a%b%b\x12%b%b" % (around, head, size, payload)


PROTOBUF_V1 = ProtobufCodec()
