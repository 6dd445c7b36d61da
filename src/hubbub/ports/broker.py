"""The message broker behind services: request and reply, and durable logs.

The broker may be unreachable at any time; every method then fails at once or within its timeout.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import msgspec


class NobodyThere(Exception):
    """No subscriber listens on the subject, or the broker itself is unreachable."""


class LogUnavailable(Exception):
    """The log did not confirm the entry."""


class BrokerRequest(msgspec.Struct, frozen=True):
    subject: str
    data: bytes


class BrokerReply(msgspec.Struct, frozen=True):
    data: bytes
    headers: Mapping[str, str] = {}


Answerer = Callable[[BrokerRequest], Awaitable[BrokerReply]]


class Broker(Protocol):
    @property
    def max_bytes(self) -> int:
        """The size limit of a request or a reply."""

    async def request(self, subject: str, data: bytes, seconds: float) -> BrokerReply:
        """Raises `NobodyThere` at once if no subscriber listens, and `TimeoutError`."""

    async def append(self, subject: str, data: bytes, entry_id: str, seconds: float) -> None:
        """Returns when the log has stored the entry durably; a recently used id is not stored
        twice. Raises `LogUnavailable`."""

    async def serve(self, subject: str, group: str, answer: Answerer) -> None:
        """Processes requests to the subject, which may contain wildcards, concurrently. Each
        request goes to one member of the group; with an empty group, to every member."""
