"""The subprotocol hubbub.json.v1: text, one envelope per line.

    {"event":"Publish","payload":{"publishes":[{"channel":"news","payload":{"json":{"a":1}}}]}}

A unit is the line of one envelope.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hubbub.domain.errors import HubbubError, Malformed
from hubbub.domain.messages import Message
from hubbub.domain.notices import Notice
from hubbub.domain.payloads import NEWLINE, is_utf8
from hubbub.domain.requests import Rejected, Request
from hubbub.protocols.checks import check_frame
from hubbub.protocols.json.events import notice_json, read_notice, read_request, request_json
from hubbub.protocols.json.fast import message_json, read_command, read_publish


class _Envelope(msgspec.Struct, gc=False):
    event: str
    payload: msgspec.Raw = msgspec.Raw()


_envelope = msgspec.json.Decoder(_Envelope).decode
_PUBLISH, _COMMAND, _BEGINNING = b'"Publish"', b'"HCommand"', 32
"""The event comes first where clients write an envelope as it is documented."""


class JsonCodec:
    """Both ends of the wire: the hub decodes requests and encodes notices, the client the
    reverse. Has no state; one object serves all connections."""

    subprotocol = "hubbub.json.v1"
    opcode = 1
    rid = None

    def decode(self, data: bytes) -> list[Request]:
        """The requests of one WebSocket message, in order."""
        # The framing checks UTF-8 too, but payloads are spliced into what others receive: that
        # must not hang on a caller.
        if not data.isascii() and not is_utf8(data):
            return [Rejected(Malformed("the frame is not UTF-8"))]
        if NEWLINE not in data:
            return _decode_envelope(data)
        return _decode_lines(data)

    def encode_message(self, message: Message) -> bytes:
        return b'{"event":"Publish","payload":%b}' % message_json(message)

    def encode(self, notice: Notice) -> bytes:
        return _encode_envelope(*notice_json(notice))

    def join(self, units: Sequence[bytes]) -> bytes:
        """The payload of one WebSocket message that holds these units."""
        return b"\n".join(units)

    def encode_request(self, request: Request) -> bytes:
        return _encode_envelope(*request_json(request))

    def decode_notices(self, data: bytes) -> list[Notice]:
        """The notices of one WebSocket message. Events that this version does not know are left
        out, because a newer hub may send them."""
        try:
            envelopes = [_envelope(line) for line in data.split(b"\n") if line]
            found = (read_notice(each.event, each.payload) for each in envelopes)
            return [notice for notice in found if notice is not None]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Malformed(f"the hub's frame cannot be read: {error}") from error


def _encode_envelope(event: str, payload: bytes) -> bytes:
    return b'{"event":"%b","payload":%b}' % (event.encode(), payload)


def _decode_lines(data: bytes) -> list[Request]:
    try:
        envelope = _envelope(data)
    except (msgspec.DecodeError, RecursionError):
        lines = [line for line in data.split(b"\n") if line.strip()]
    else:  # one envelope, with line breaks for human eyes
        return read_request(envelope.event, envelope.payload)
    try:
        check_frame(len(lines))
    except HubbubError as error:
        return [Rejected(error)]
    if not lines:
        return [Rejected(Malformed("the frame has no envelope"))]
    return [request for line in lines for request in _decode_envelope(line)]


def _decode_envelope(line: bytes) -> list[Request]:
    beginning = line[:_BEGINNING]
    found: Request | None = None
    if _PUBLISH in beginning:
        found = read_publish(line)
    elif _COMMAND in beginning:
        found = read_command(line)
    if found is not None:
        return [found]
    try:
        envelope = _envelope(line)
    except msgspec.DecodeError as error:
        return [Rejected(Malformed(f"not an envelope: {error}"))]
    except RecursionError:
        return [Rejected(Malformed("the envelope is nested too deeply"))]
    return read_request(envelope.event, envelope.payload)


JSON_V1 = JsonCodec()
