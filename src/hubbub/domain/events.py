"""The two sides of the socket protocol: a request is the payload of an event that a client sends,
a notice that of one that the hub sends. Here are the events that both send."""

from __future__ import annotations

import msgspec


class Request(msgspec.Struct, frozen=True):
    """What a client asks for."""


class Notice(msgspec.Struct, frozen=True):
    """What the hub says to a session."""


class Ping(Request, Notice, frozen=True):
    req_id: int = 0


class Pong(Request, Notice, frozen=True):
    req_id: int = 0
