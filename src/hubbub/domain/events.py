"""Base classes of the socket protocol's events: requests (from a client) and notices (from the
hub)."""

from __future__ import annotations

import msgspec


class Request(msgspec.Struct, frozen=True):
    """An event that a client sends."""


class Notice(msgspec.Struct, frozen=True):
    """An event that the hub sends to a session."""


class Ping(Request, Notice, frozen=True):
    req_id: int = 0


class Pong(Request, Notice, frozen=True):
    req_id: int = 0
