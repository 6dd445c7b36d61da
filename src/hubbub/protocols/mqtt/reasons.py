"""Reason codes of MQTT 5, the return codes of MQTT 3.1.1, and the reason for each of the hub's
errors."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, unique

from hubbub.domain.errors import (
    AuthProviderFailed,
    BadRequest,
    Denied,
    GoingAway,
    HeartbeatTimeout,
    HubbubError,
    HubNotFound,
    HubRestoring,
    InvalidAttribute,
    InvalidName,
    InvalidPayload,
    InvalidToken,
    Limited,
    Malformed,
    NotAuthenticated,
    NotFound,
    Overloaded,
    RateLimited,
    SessionReplaced,
    Timeout,
    TooLarge,
    Unavailable,
    WrongChannelKind,
)


@unique
class Reason(IntEnum):
    SUCCESS = 0x00
    DISCONNECT_WITH_WILL = 0x04
    NO_SUBSCRIPTION_EXISTED = 0x11
    CONTINUE_AUTHENTICATION = 0x18
    REAUTHENTICATE = 0x19
    UNSPECIFIED = 0x80
    MALFORMED = 0x81
    PROTOCOL_ERROR = 0x82
    IMPLEMENTATION = 0x83
    UNSUPPORTED_VERSION = 0x84
    CLIENT_ID_INVALID = 0x85
    BAD_CREDENTIALS = 0x86
    NOT_AUTHORIZED = 0x87
    UNAVAILABLE = 0x88
    BUSY = 0x89
    SHUTTING_DOWN = 0x8B
    BAD_METHOD = 0x8C
    KEEP_ALIVE = 0x8D
    TAKEN_OVER = 0x8E
    FILTER_INVALID = 0x8F
    TOPIC_INVALID = 0x90
    PACKET_ID_NOT_FOUND = 0x92
    RECEIVE_MAXIMUM = 0x93
    ALIAS_INVALID = 0x94
    TOO_LARGE = 0x95
    QUOTA = 0x97
    ADMINISTRATIVE = 0x98
    PAYLOAD_FORMAT = 0x99
    QOS_NOT_SUPPORTED = 0x9B
    SHARED_NOT_SUPPORTED = 0x9E
    RATE = 0x9F
    MAXIMUM_TIME = 0xA0


class PacketError(Exception):
    """The client violated the protocol; nothing behind the packet is read."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


def malformed(message: str) -> PacketError:
    return PacketError(Reason.MALFORMED, message)


def violation(message: str) -> PacketError:
    return PacketError(Reason.PROTOCOL_ERROR, message)


_CONNECT: tuple[tuple[type[HubbubError], Reason], ...] = (
    (Malformed, Reason.MALFORMED),
    (TooLarge, Reason.TOO_LARGE),
    (InvalidName, Reason.CLIENT_ID_INVALID),
    (BadRequest, Reason.UNSPECIFIED),
    (InvalidToken, Reason.BAD_CREDENTIALS),
    (NotAuthenticated, Reason.NOT_AUTHORIZED),
    (HubNotFound, Reason.NOT_AUTHORIZED),
    (Denied, Reason.NOT_AUTHORIZED),
    (RateLimited, Reason.RATE),
    (Overloaded, Reason.BUSY),
    (Limited, Reason.QUOTA),
    (AuthProviderFailed, Reason.UNAVAILABLE),
    (Unavailable, Reason.UNAVAILABLE),
    (Timeout, Reason.UNAVAILABLE),
)
_PUBLISH: tuple[tuple[type[HubbubError], Reason], ...] = (
    (InvalidPayload, Reason.PAYLOAD_FORMAT),
    (InvalidAttribute, Reason.QUOTA),
    (InvalidName, Reason.TOPIC_INVALID),
    (WrongChannelKind, Reason.TOPIC_INVALID),
    (TooLarge, Reason.TOO_LARGE),
    (Denied, Reason.NOT_AUTHORIZED),
    (NotFound, Reason.NOT_AUTHORIZED),
    (Overloaded, Reason.IMPLEMENTATION),
    (Limited, Reason.QUOTA),
    (BadRequest, Reason.IMPLEMENTATION),
)
_SUBSCRIBE: tuple[tuple[type[HubbubError], Reason], ...] = (
    (InvalidName, Reason.FILTER_INVALID),
    (WrongChannelKind, Reason.FILTER_INVALID),
    (Denied, Reason.NOT_AUTHORIZED),
    (NotFound, Reason.NOT_AUTHORIZED),
    (Overloaded, Reason.IMPLEMENTATION),
    (Limited, Reason.QUOTA),
)
_LIVE: tuple[tuple[type[HubbubError], Reason], ...] = (
    (SessionReplaced, Reason.TAKEN_OVER),
    (HeartbeatTimeout, Reason.KEEP_ALIVE),
    (Malformed, Reason.MALFORMED),
    (TooLarge, Reason.TOO_LARGE),
    (InvalidName, Reason.TOPIC_INVALID),
    (NotAuthenticated, Reason.NOT_AUTHORIZED),
    (Denied, Reason.NOT_AUTHORIZED),
    (HubNotFound, Reason.NOT_AUTHORIZED),
    (GoingAway, Reason.SHUTTING_DOWN),
    (HubRestoring, Reason.SHUTTING_DOWN),
    (Overloaded, Reason.BUSY),
    (Limited, Reason.QUOTA),
    (Unavailable, Reason.BUSY),
    (Timeout, Reason.BUSY),
)


def _reason(table: tuple[tuple[type[HubbubError], Reason], ...], error: HubbubError) -> Reason:
    for kind, reason in table:
        if isinstance(error, kind):
            return reason
    return Reason.UNSPECIFIED


def for_connect(error: HubbubError) -> Reason:
    return _reason(_CONNECT, error)


def for_publish(error: HubbubError) -> Reason:
    return _reason(_PUBLISH, error)


def for_subscribe(error: HubbubError) -> Reason:
    return _reason(_SUBSCRIBE, error)


def for_live(error: HubbubError) -> Reason:
    """The reason of a DISCONNECT."""
    return _reason(_LIVE, error)


_RETURN_CODES: Mapping[Reason, int] = {
    Reason.SUCCESS: 0,
    Reason.UNSUPPORTED_VERSION: 1,
    Reason.CLIENT_ID_INVALID: 2,
    Reason.BAD_CREDENTIALS: 4,
    Reason.NOT_AUTHORIZED: 5,
}


def return_code(reason: Reason) -> int:
    """The code of a CONNACK of MQTT 3.1.1; 3 is "server unavailable"."""
    return _RETURN_CODES.get(reason, 3)
