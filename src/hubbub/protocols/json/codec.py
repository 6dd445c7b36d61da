"""The subprotocol hubbub.json.v1: text, one envelope per line.

    {"event":"Publish","payload":{"publishes":[{"channel":"news","payload":{"json":{"a":1}}}]}}

A unit is the line of one envelope.
"""

from __future__ import annotations

import msgspec

from hubbub.domain.errors import HubbubError, Malformed
from hubbub.domain.notices import Notice, Published
from hubbub.domain.payloads import NEWLINE, is_utf8, json_fault, without_surrogates
from hubbub.domain.requests import Request, UndecodableRequest
from hubbub.protocols.checks import check_frame
from hubbub.protocols.json.events import (
    notice_json,
    read_notice,
    read_request,
    req_ids_of,
    request_json,
)
from hubbub.protocols.json.fast import ack_json, delivery_json, read_command, read_publish


class _ReceivedEnvelope(msgspec.Struct, gc=False):
    event: str
    payload: msgspec.Raw = msgspec.Raw()


_envelope = msgspec.json.Decoder(_ReceivedEnvelope).decode
_PUBLISH, _COMMAND, _BEGINNING = b'"Publish"', b'"HCommand"', 32
"""Clients that follow the documentation put the event at the beginning of an envelope."""


class JsonCodec:
    """Codec for both sides: the hub decodes requests and encodes notices, the client the reverse.
    Stateless; one object serves all connections."""

    subprotocol = "hubbub.json.v1"
    opcode = 1
    rid = None
    prepare = None

    def decode(self, data: bytes) -> list[Request]:
        """The requests of one WebSocket message, in order."""
        # The framing checks UTF-8 too, but payloads are spliced into what others receive: that
        # must not hang on a caller.
        if not data.isascii() and not is_utf8(data):
            return [UndecodableRequest(Malformed("the frame is not UTF-8"))]
        if NEWLINE in data:
            return _decode_lines(data)
        if _PUBLISH in data[:_BEGINNING]:
            found = read_publish(data)
            return [found] if found is not None else _decode_any(data)
        return _decode_envelope(data)

    encode_message = staticmethod(delivery_json)

    def encode(self, notice: Notice) -> bytes:
        if type(notice) is Published:  # as frequent as publishes
            return b'{"event":"Ack","payload":%b}' % ack_json(notice)
        return _encode_envelope(*notice_json(notice))

    join = staticmethod(b"\n".join)

    def encode_request(self, request: Request) -> bytes:
        return _encode_envelope(*request_json(request))

    def decode_notices(self, data: bytes) -> list[Notice]:
        """The notices of one WebSocket message. Unknown events are skipped, because a newer hub may
        send them."""
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
        return [UndecodableRequest(error)]
    if not lines:
        return [UndecodableRequest(Malformed("the frame has no envelope"))]
    return [request for line in lines for request in _decode_envelope(line)]


def _decode_envelope(line: bytes) -> list[Request]:
    beginning = line[:_BEGINNING]
    found: Request | None = None
    if _PUBLISH in beginning:
        found = read_publish(line)
    elif _COMMAND in beginning:
        found = read_command(line)
    return [found] if found is not None else _decode_any(line)


def _decode_any(line: bytes) -> list[Request]:
    try:
        envelope = _envelope(line)
    except msgspec.DecodeError as error:
        refusal = Malformed(f"not an envelope: {json_fault(line, error)}")
        return [UndecodableRequest(refusal, each) for each in _req_ids(line)]
    except RecursionError:
        return [UndecodableRequest(Malformed("the envelope is nested too deeply"))]
    return read_request(envelope.event, envelope.payload)


def _req_ids(line: bytes) -> list[int]:
    """The ids of the requests in an envelope that has lone surrogates; 0 stands for no id."""
    try:
        envelope = _envelope(without_surrogates(line))
    except (msgspec.DecodeError, RecursionError):
        return [0]
    return req_ids_of(envelope.event, envelope.payload)


JSON_V1 = JsonCodec()
