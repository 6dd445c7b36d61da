"""The WebSocket handshake: validates the request and negotiates the subprotocol."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

from hubbub.domain.errors import BadRequest, UpgradeRequired
from hubbub.gateways.credentials import TOKEN_SUBPROTOCOL, offered_subprotocols
from hubbub.gateways.encoders import WebSocketCodec
from hubbub.gateways.http import ReceivedRequest
from hubbub.ports import randomness
from hubbub.protocols.hubiquitus.codec import SUBPROTOCOL, HubiquitusCodec
from hubbub.protocols.json.codec import JSON_V1
from hubbub.protocols.protobuf.codec import PROTOBUF_V1
from hubbub.protocols.websocket import accept_key

_CODECS: dict[str, WebSocketCodec] = {codec.subprotocol: codec for codec in (JSON_V1, PROTOBUF_V1)}

FIRST_RID = 1_000_000
"""The first event to a Hubiquitus client has the next higher number."""


def checked_key(request: ReceivedRequest) -> str:
    """The key of a valid handshake. Raises `BadRequest`."""
    if request.method != b"GET":
        raise BadRequest("a WebSocket handshake is a GET request")
    if (request.header(b"upgrade") or "").lower() != "websocket":
        raise BadRequest("the Upgrade header must be 'websocket'")
    if request.header(b"sec-websocket-version") != "13":
        raise UpgradeRequired("Sec-WebSocket-Version must be 13")
    key = request.header(b"sec-websocket-key") or ""
    try:
        valid = len(base64.b64decode(key, validate=True)) == 16
    except binascii.Error:
        valid = False
    if not valid:
        raise BadRequest("Sec-WebSocket-Key must be 16 bytes in base64")
    return key


def negotiate_codec(request: ReceivedRequest, hub: str) -> WebSocketCodec:
    """The first offered subprotocol that is supported; JSON if none was offered."""
    offered = offered_subprotocols(request)
    for name in offered:
        if name == SUBPROTOCOL:
            return HubiquitusCodec(hub, randomness.token_below(FIRST_RID))
        if name in _CODECS:
            return _CODECS[name]
    if offered:
        raise _none_spoken(offered, (*_CODECS, SUBPROTOCOL))
    return JSON_V1


def negotiate_plain_codec(request: ReceivedRequest) -> WebSocketCodec:
    """Negotiates a codec other than that of Hubiquitus, whose addresses name a hub."""
    offered = offered_subprotocols(request)
    for name in offered:
        if name in _CODECS:
            return _CODECS[name]
    if offered:
        raise _none_spoken(offered, tuple(_CODECS))
    return JSON_V1


def _none_spoken(offered: Sequence[str], spoken: Sequence[str]) -> BadRequest:
    shown = [name for name in offered if not name.startswith(TOKEN_SUBPROTOCOL)]
    return BadRequest(
        f"none of the subprotocols {shown} is spoken here; offer one of {sorted(spoken)}"
    )


def note_header(note: str | None) -> bytes:
    """A header line with a note for people; empty if there is none."""
    return f"Hubbub-Note: {note}\r\n".encode() if note is not None else b""


def switching(
    key: str, subprotocol: str | None, extension: str | None, headers: bytes = b""
) -> bytes:
    """`headers` are complete lines."""
    lines = [
        "HTTP/1.1 101 Switching Protocols",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Accept: {accept_key(key)}",
    ]
    if subprotocol is not None:
        lines.append(f"Sec-WebSocket-Protocol: {subprotocol}")
    if extension is not None:
        lines.append(f"Sec-WebSocket-Extensions: {extension}")
    return "\r\n".join([*lines, ""]).encode() + headers + b"\r\n"
