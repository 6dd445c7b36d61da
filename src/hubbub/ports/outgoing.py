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
from typing import Final, Literal, Protocol

import msgspec

from hubbub import __version__
from hubbub.domain.callbacks import Reach

USER_AGENT: Final = f"Hubbub/{__version__}"
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
    """An HTTP request. The sender sets `Host`, `Content-Length` and `Connection`."""

    hub: str
    """The hub that sends the request; hubs share no connections."""
    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    timeout_seconds: float = 10.0
    """For the whole exchange, from name resolution to the last byte of the response."""
    max_answer_bytes: int = 64 * 1024
    repeatable: bool = True
    """Whether the request may be sent again if a reused connection closed before the response
    began; the receiver may then have received it twice."""


class HttpResponse(msgspec.Struct, frozen=True):
    """Header names are in lower case; of repeated headers, the last one counts."""

    status: int
    headers: dict[str, str]
    body: bytes
    duration_seconds: float

    def retry_after_seconds(self, now: float) -> float:
        """The delay that the server asks for; 0 if none. `now` is in seconds since 1970."""
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
"""The purpose of a request to a tenant's server; each purpose has its own queues and breakers. A
`delivery` is an adapter's turn; the adapter's own requests have the purpose `adapter`."""


class SendFailed(Exception):
    """No complete response arrived. `status` is its HTTP status, if it was received."""

    def __init__(self, word: FailureWord, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.word = word
        self.message = message
        self.status = status


class HttpSender(Protocol):
    async def check(self, hub: str, url: str, reach: Reach = "public") -> None:
        """Raises `SendFailed` if the host resolves to a forbidden address, and `BadRequest`. A name
        that cannot be resolved now passes."""

    async def send(self, request: HttpRequest, reach: Reach = "public") -> HttpResponse:
        """Raises `SendFailed`, and `BadRequest` for an invalid URL."""


class Outgoing(Protocol):
    """Requests to tenants' servers, with fair shares between hubs."""

    async def send(self, purpose: Purpose, request: HttpRequest, reach: Reach) -> HttpResponse:
        """Sends one request when its destination has a free slot, all within the request's timeout.
        Raises `SendFailed`, and `BadRequest` for an invalid URL."""

    def slot(
        self, hub: str, purpose: Purpose, name: str, seconds: float
    ) -> AbstractAsyncContextManager[float]:
        """A slot for a request that does not use HTTP: entering the context waits for the slot and
        returns the seconds left. Raises `Overloaded`."""
