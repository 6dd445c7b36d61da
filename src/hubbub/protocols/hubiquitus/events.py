"""Events of Hubiquitus as JSON text: `{"name": EVENT, "args": [OBJECT]}`."""

from __future__ import annotations

import enum
from typing import Any

import msgspec

from hubbub.domain.errors import Malformed

_encode = msgspec.json.Encoder().encode


class ConnectionStatus(enum.IntEnum):
    """The state of the connection in an hStatus."""

    CONNECTING = 1
    CONNECTED = 2
    REATTACHING = 3
    REATTACHED = 4
    DISCONNECTING = 5
    DISCONNECTED = 6


class StatusCode(enum.IntEnum):
    """The error code in an hStatus."""

    NONE = 0
    JID_MALFORMED = 1
    TIMEOUT = 2
    AUTHENTICATION_FAILED = 3
    ATTACH_FAILED = 4
    ALREADY_CONNECTED = 5
    TECHNICAL = 6
    NOT_CONNECTED = 7
    IN_PROGRESS = 8


class HStatus(msgspec.Struct, frozen=True):
    status: ConnectionStatus
    error: StatusCode
    text: str = ""


class ClientEvent(msgspec.Struct, frozen=True):
    """An event of a client; `value` is None if it contains no object."""

    name: str
    value: Any


class _Event(msgspec.Struct):
    name: str
    args: list[Any] = []


_decode = msgspec.json.Decoder(_Event).decode


def read_event(text: bytes) -> ClientEvent:
    """Raises `Malformed`."""
    try:
        event = _decode(text)
    except msgspec.DecodeError as error:
        raise Malformed(f"the frame is no event: {error}") from None
    except RecursionError:
        raise Malformed("the frame is nested too deeply") from None
    return ClientEvent(event.name, event.args[0] if event.args else None)


def write_event(name: str, value: Any) -> bytes:
    return _encode({"name": name, "args": [value]})


def write_status(status: HStatus) -> bytes:
    shown: dict[str, Any] = {"status": int(status.status), "errorCode": int(status.error)}
    if status.text:
        shown["errorMsg"] = status.text
    return write_event("hStatus", shown)
