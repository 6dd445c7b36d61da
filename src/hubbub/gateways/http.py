"""HTTP requests and responses as values."""

from __future__ import annotations

import logging
import re
from functools import lru_cache
from math import ceil
from urllib.parse import parse_qsl, unquote_to_bytes

import httptools
import msgspec

from hubbub.domain.errors import (
    HubbubError,
    Malformed,
    MethodNotAllowed,
    UnsupportedMediaType,
    UpgradeRequired,
)
from hubbub.gateways.content_headers import passive

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
    415: "Unsupported Media Type",
    422: "Unprocessable Content",
    426: "Upgrade Required",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
}
WITHOUT_BODY = (204, 304)
TEXT_UTF8 = "text/plain; charset=utf-8"
OK_JSON = f"HTTP/1.1 200 OK\r\n{passive('application/json')}Content-Length: ".encode()
_BAD_PERCENT = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_KNOWN_TARGET_BYTES = 1024
"""Longer targets are parsed each time: caching them could use much memory."""


class Target(msgspec.Struct, frozen=True):
    """A request target: decoded path segments and query parameters."""

    segments: tuple[str, ...]
    query: tuple[tuple[str, str], ...]

    def first(self, name: str) -> str | None:
        return next((value for key, value in self.query if key == name), None)

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.query if key == name]


def parse_target(url: bytes) -> Target:
    """Splits before decoding, so that an encoded `/` stays inside its segment. Raises
    `Malformed`."""
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


class PreparedRequest(msgspec.Struct, eq=False):
    """The parts of a request that depend only on its head."""

    hub: str


class RequestHead:
    """The head of a request. Header names are in lower case; values of repeated headers are joined.
    Clients send the same head repeatedly: it is parsed once, and handlers may cache what depends on
    it in `memo`, and the caller in `sender`."""

    __slots__ = (
        "headers",
        "keep_alive",
        "length",
        "memo",
        "method",
        "plain",
        "raw",
        "sender",
        "size",
        "url",
    )

    def __init__(
        self, method: bytes, url: bytes, headers: dict[bytes, bytes], keep_alive: bool
    ) -> None:
        self.method = method
        self.url = url
        self.headers = headers
        self.keep_alive = keep_alive
        self.plain = keep_alive and method != b"HEAD"
        """The response has a body, and the connection stays open."""
        self.length = int(headers.get(b"content-length", b"0"))
        self.memo: PreparedRequest | None = None
        self.sender: object = None
        self.raw = b""
        """The bytes of the head, if it is to be recognised again."""
        self.size = 0
        """The size of the whole request, if the head is to be recognised again."""


class ReceivedRequest(msgspec.Struct, eq=False):
    """A complete request."""

    head: RequestHead
    body: bytes = b""
    address: str = ""
    """The client's address, as far as the proxies in between are trusted."""

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


class HttpLimits(msgspec.Struct, frozen=True):
    head_bytes: int = 16 * 1024
    body_bytes: int = 1024 * 1024
    head_seconds: float = 10.0
    idle_seconds: float = 75.0
    send_seconds: float = 30.0
    """Time limit within which a client must read some of its pending responses."""


def response_head(status: int, content: str, length: int, headers: str, keep_alive: bool) -> str:
    """`content` are the lines of `content_headers`."""
    close = "" if keep_alive else "Connection: close\r\n"
    content = f"{content}Content-Length: {length}\r\n"
    if status in WITHOUT_BODY:
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
    elif isinstance(error, UnsupportedMediaType) and error.accepted:
        headers += f"Accept-Patch: {', '.join(error.accepted)}\r\n"
    elif isinstance(error, UpgradeRequired):
        headers += "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    return headers


def error_text(error: HubbubError) -> bytes:
    """The error code in words, and the message."""
    return f"{error.code.replace('_', ' ')}: {error.message}\n".encode(errors="replace")


def error_body(error: HubbubError) -> bytes:
    return msgspec.json.encode({"error": error_shape(error)})


def error_shape(error: HubbubError) -> dict[str, object]:
    """An error as JSON; `retryAfter` is in seconds, if known."""
    shape: dict[str, object] = {"code": error.code, "message": error.message, "retry": error.retry}
    if error.retry_after is not None:
        shape["retryAfter"] = round(error.retry_after, 3)
    return shape | error.details
