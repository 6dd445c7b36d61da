"""Status codes of a command's result."""

from __future__ import annotations

import enum


class Status(enum.IntEnum):
    OK = 0
    TECHNICAL = 1
    NOT_CONNECTED = 3
    NOT_AUTHORIZED = 5
    MISSING = 6
    INVALID = 7
    NOT_AVAILABLE = 9
    TIMEOUT = 10


class CommandRefused(Exception):
    """The command ends with a status other than 0 and a text that names the attribute."""

    def __init__(self, status: Status, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


def missing(text: str) -> CommandRefused:
    return CommandRefused(Status.MISSING, text)


def invalid(text: str) -> CommandRefused:
    return CommandRefused(Status.INVALID, text)


def not_authorized(text: str) -> CommandRefused:
    return CommandRefused(Status.NOT_AUTHORIZED, text)


def not_available(text: str) -> CommandRefused:
    return CommandRefused(Status.NOT_AVAILABLE, text)
