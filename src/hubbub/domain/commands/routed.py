"""What nodes hand to each other on the way from one client to another."""

from __future__ import annotations

import msgspec

from hubbub.domain.commands.status import Status
from hubbub.domain.messages import Message


class Receiver(msgspec.Struct, frozen=True):
    """All sessions of a user, or one of them."""

    hub: str
    user_id: str
    session_id: str | None = None


class RoutedCommand(msgspec.Struct, frozen=True):
    """`command` is an hCommand as JSON, under the request id that the hub made; its receivers have
    `seconds` to answer."""

    receiver: Receiver
    req_id: str
    command: bytes
    seconds: float


class RoutedResult(msgspec.Struct, frozen=True):
    """`result` as JSON; empty where there is nothing to say."""

    req_id: str
    status: Status
    result: bytes


class RoutedMessage(msgspec.Struct, frozen=True):
    receiver: Receiver
    message: Message
