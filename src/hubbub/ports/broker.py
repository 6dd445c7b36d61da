"""The message broker behind services: requests with one answer, and durable logs.

Whoever is behind it may be away at any time; every method says so at once or within its seconds.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import msgspec


class NobodyThere(Exception):
    """No one listens on the subject, or the broker itself is away."""


class LogUnavailable(Exception):
    """The log did not confirm that it has the entry."""


class Asked(msgspec.Struct, frozen=True):
    subject: str
    data: bytes


class Reply(msgspec.Struct, frozen=True):
    data: bytes
    headers: Mapping[str, str] = {}


Answerer = Callable[[Asked], Awaitable[Reply]]


class Broker(Protocol):
    @property
    def max_bytes(self) -> int:
        """Of a request or an answer."""

    async def request(self, subject: str, data: bytes, seconds: float) -> Reply:
        """Raises `NobodyThere` at once where nobody listens, and `TimeoutError`."""

    async def append(self, subject: str, data: bytes, entry_id: str, seconds: float) -> None:
        """Returns when the log of the subject has the entry for good; an id that it has had lately
        is not kept twice. Raises `LogUnavailable`."""

    async def serve(self, subject: str, group: str, answer: Answerer) -> None:
        """Have requests to the subject, which may hold wildcards, answered beside each other. Of
        those that serve it in the same group, one gets each request; an empty group: all do."""
