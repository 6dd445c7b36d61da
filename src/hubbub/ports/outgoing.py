"""Requests to servers that strangers named.

Contract for every sender:
- The name is resolved and every address of it is checked before one is connected to, and it is
  that very address that is connected to. No address that is not public, unless `reach` says so.
- No redirect is followed; no cookie, credential or proxy is used.
- Time and size of an answer are bounded by the request.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from email.utils import parsedate_to_datetime
from typing import Literal, Protocol

import msgspec

from hubbub.domain.callbacks import Reach

FailureWord = Literal[
    "refused_address",
    "resolve",
    "connect",
    "timeout",
    "closed",
    "too_large",
    "protocol",
    "tls",
    "busy",
]


class HttpRequest(msgspec.Struct, frozen=True):
    """A request. `Host`, `Content-Length` and `Connection` are up to the sender."""

    hub: str
    """On whose behalf: hubs share no connections."""
    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    timeout_seconds: float = 10.0
    """For all of it, from the name to the last byte of the answer."""
    max_answer_bytes: int = 64 * 1024
    repeatable: bool = True
    """It may be sent once more where a kept connection ended before an answer began; the receiver
    may then have seen it twice."""


class HttpResponse(msgspec.Struct, frozen=True):
    """`headers` are in lower case; of several with one name, the last."""

    status: int
    headers: dict[str, str]
    body: bytes
    duration_seconds: float

    def retry_after_seconds(self, now: float) -> float:
        """How long the server wants to be left alone; 0 where it did not say. `now` is in seconds
        since 1970."""
        text = self.headers.get("retry-after", "")
        if text.isdecimal() and len(text) < 10:
            return float(text)
        if text:
            try:
                return max(0.0, parsedate_to_datetime(text).timestamp() - now)
            except (ValueError, OverflowError, TypeError):
                pass
        return 0.0


Purpose = Literal[
    "webhook", "fetch", "call", "auth", "keys", "stream", "push", "adapter", "delivery"
]
"""What a request to a tenant's server is for; each purpose has its own queues and breakers. A
`delivery` is a turn of an adapter, whose own requests are of the purpose `adapter`."""


class SendFailed(Exception):
    """There is no whole answer. `status` is what it began with, if it got so far."""

    def __init__(self, word: FailureWord, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.word = word
        self.message = message
        self.status = status


class HttpSender(Protocol):
    async def check(self, hub: str, url: str, reach: Reach = "public") -> None:
        """Raises `SendFailed` where the host leads to an address that may not be connected to now,
        and `BadRequest`. A name that cannot be resolved now passes."""

    async def send(self, request: HttpRequest, reach: Reach = "public") -> HttpResponse:
        """Raises `SendFailed`, and `BadRequest` for a URL that cannot be used."""


class Outgoing(Protocol):
    """Requests to servers that tenants named, in fair shares between hubs."""

    async def send(self, purpose: Purpose, request: HttpRequest, reach: Reach) -> HttpResponse:
        """One request, when its destination may have one, all within the request's own time.
        Raises `SendFailed`, and `BadRequest` for a URL that cannot be used."""

    def slot(
        self, hub: str, purpose: Purpose, name: str, seconds: float
    ) -> AbstractAsyncContextManager[float]:
        """For a request that does not go over HTTP: entering waits for its turn and answers the
        seconds that are left. Raises `Overloaded`."""
