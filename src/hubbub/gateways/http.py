"""HTTP requests and their answers, as the doors behind the listener see them."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Coroutine
from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qsl, unquote_to_bytes

import httptools
import msgspec

from hubbub.domain.errors import (
    HubbubError,
    Internal,
    Malformed,
    MethodNotAllowed,
    UpgradeRequired,
)

if TYPE_CHECKING:
    from hubbub.gateways.http_connection import HttpConnection

logger = logging.getLogger(__name__)

_REASONS = {
    200: "OK",
    201: "Created",
    202: "Accepted",
    204: "No Content",
    304: "Not Modified",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    409: "Conflict",
    410: "Gone",
    412: "Precondition Failed",
    413: "Content Too Large",
    422: "Unprocessable Content",
    426: "Upgrade Required",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
}
_WITHOUT_BODY = (204, 304)
TEXT_UTF8 = "text/plain; charset=utf-8"
_OK_JSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "
_BAD_PERCENT = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_KNOWN_TARGET_BYTES = 1024
"""Longer targets are parsed each time: remembering them could take a lot of memory."""


class Target(msgspec.Struct, frozen=True):
    """A request target: decoded path segments and query parameters."""

    segments: tuple[str, ...]
    query: tuple[tuple[str, str], ...]

    def first(self, name: str) -> str | None:
        return next((value for key, value in self.query if key == name), None)

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.query if key == name]


def parse_target(url: bytes) -> Target:
    """Split before decoding, so that an encoded `/` belongs to its segment. Raises `Malformed`."""
    return _parse_known(url) if len(url) <= _KNOWN_TARGET_BYTES else _parse(url)


def _parse(url: bytes) -> Target:
    if _BAD_PERCENT.search(url):
        raise Malformed("the request target has a '%' without two hexadecimal digits behind it")
    try:
        parsed = httptools.parse_url(url)
        path = (parsed.path or b"/").split(b"/")[1:]
        segments = tuple(unquote_to_bytes(segment).decode() for segment in path)
        query = (parsed.query or b"").decode("ascii")
        parameters = tuple(
            parse_qsl(query, keep_blank_values=True, max_num_fields=300, errors="strict")
        )
    except (httptools.HttpParserError, ValueError) as error:
        raise Malformed(f"the request target cannot be read: {error}") from None
    return Target(segments, parameters)


_parse_known = lru_cache(maxsize=4096)(_parse)


class Head:
    """The head of a request. Header names are in lower case; of repeated ones the values are
    joined. A client that stays sends the same head again and again: it is parsed once, and
    whoever handles it may keep in `memo` what follows from it."""

    __slots__ = ("headers", "keep_alive", "length", "memo", "method", "plain", "raw", "url")

    def __init__(
        self, method: bytes, url: bytes, headers: dict[bytes, bytes], keep_alive: bool
    ) -> None:
        self.method = method
        self.url = url
        self.headers = headers
        self.keep_alive = keep_alive
        self.plain = keep_alive and method != b"HEAD"
        """The answer has a body, and the connection stays."""
        self.length = int(headers.get(b"content-length", b"0"))
        self.memo: object = None
        self.raw = b""
        """All of its bytes, if it is to be known again."""


class Request:
    """A whole request."""

    __slots__ = ("address", "body", "head")

    def __init__(self, head: Head, body: bytes = b"") -> None:
        self.head = head
        self.body = body
        self.address = ""
        """Of the client, as far as the proxies in between are trusted."""

    @property
    def method(self) -> bytes:
        return self.head.method

    @property
    def url(self) -> bytes:
        return self.head.url

    @property
    def headers(self) -> dict[bytes, bytes]:
        return self.head.headers

    def header(self, name: bytes) -> str | None:
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")


class Handler(Protocol):
    """What stands behind the connections."""

    def handle(self, request: Request, exchange: Exchange) -> None:
        """Answer now or later through the exchange. May raise `HubbubError`."""

    def upgrade(self, request: Request, connection: HttpConnection, rest: bytes) -> None:
        """Take the connection over; `rest` came behind the head."""


class HttpLimits(msgspec.Struct, frozen=True):
    head_bytes: int = 16 * 1024
    body_bytes: int = 1024 * 1024
    head_seconds: float = 10.0
    idle_seconds: float = 75.0
    send_seconds: float = 30.0
    """In which a client has to take at least some of the answers that wait for it."""


class Exchange:
    """The answer to one request, to be given exactly once."""

    __slots__ = (
        "_answered",
        "_head",
        "connection",
        "extra_headers",
        "text_errors",
    )

    def __init__(self, connection: HttpConnection, head: Head) -> None:
        self.connection = connection
        self._head = head
        self._answered = False
        self.extra_headers = b""
        """Complete header lines that every answer gets (CORS)."""
        self.text_errors = False
        """Errors are said in plain text, for clients that may know nothing of JSON."""

    def answer_json(self, body: bytes) -> None:
        """The common case, kept cheap."""
        if self.extra_headers or not self._head.plain:
            self.answer(200, body)
        else:
            self._finish(b"%b%d\r\n\r\n%b" % (_OK_JSON, len(body), body))

    def answer(
        self, status: int, body: bytes, content_type: str = "application/json", headers: str = ""
    ) -> None:
        head = response_head(status, content_type, len(body), headers, self._head.keep_alive)
        if self._head.method == b"HEAD" or status in _WITHOUT_BODY:
            body = b""
        self._finish(head.encode("latin-1") + self.extra_headers + b"\r\n" + body)

    def fail(self, error: HubbubError) -> None:
        headers = error_headers(error)
        if self.text_errors:
            headers += f"Hubbub-Error: {error.code}\r\n"
            self.answer(error.http_status, error_text(error), TEXT_UTF8, headers)
        else:
            self.answer(error.http_status, error_body(error), headers=headers)

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Answer later; whatever happens, the client gets an answer."""
        self.connection.spawn(self._guard(work))

    async def _guard(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except HubbubError as error:
            self.fail(error)
        except asyncio.CancelledError:
            raise
        except Exception:
            logger.exception("a request failed in an unforeseen way")
            self.fail(Internal("the hub failed to handle the request"))

    def _finish(self, data: bytes) -> None:
        if not self._answered:
            self._answered = True
            self.connection.finish(data, self._head.keep_alive)


def response_head(
    status: int, content_type: str, length: int, headers: str, keep_alive: bool
) -> str:
    close = "" if keep_alive else "Connection: close\r\n"
    content = f"Content-Type: {content_type}\r\nContent-Length: {length}\r\n"
    if status in _WITHOUT_BODY:
        content = ""
    return f"HTTP/1.1 {status} {_REASONS.get(status, 'Unknown')}\r\n{content}{headers}{close}"


def error_headers(error: HubbubError) -> str:
    headers = ""
    if error.retry:
        headers = f"Retry-After: {max(1, ceil(error.retry_after or 0))}\r\n"
    if error.http_status == 401:
        headers += "WWW-Authenticate: Bearer\r\n"
    elif isinstance(error, MethodNotAllowed) and error.allowed:
        headers += f"Allow: {', '.join(error.allowed)}\r\n"
    elif isinstance(error, UpgradeRequired):
        headers += "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    return headers


def error_text(error: HubbubError) -> bytes:
    """The code in words, and the message."""
    return f"{error.code.replace('_', ' ')}: {error.message}\n".encode(errors="replace")


def error_body(error: HubbubError) -> bytes:
    return msgspec.json.encode({"error": error_shape(error)})


def error_shape(error: HubbubError) -> dict[str, object]:
    """An error as JSON has it: `retryAfter` is in seconds, where they are known."""
    shape = {"code": error.code, "message": error.message, "retry": error.retry}
    if error.retry_after is not None:
        shape["retryAfter"] = round(error.retry_after, 3)
    return shape
