"""A caller of the admin API over HTTP, for the commands that administer a server."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from hubbub.client import Unreachable
from hubbub.client.connection.link import HttpFailure, parse_address
from hubbub.client.connection.tls import check_trust, without_tls
from hubbub.domain.errors import BadRequest, HubbubError

TIMEOUT_SECONDS = 30
PAGE_ENTRIES = 500


class Refused(HubbubError):
    """The server refused the request; `reason` is the code of its error."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Found(msgspec.Struct, frozen=True):
    """A stored value and the ETag of its version; no tag where the server sends none."""

    value: dict[str, Any]
    tag: str | None


class AdminClient:
    """One connection, for as many requests as a command needs."""

    def __init__(self, url: str, token: str, tls: ssl.SSLContext | None = None) -> None:
        """Raises `BadRequest` for what is no address."""
        parts = parse_address(url)
        secure = parts.scheme in ("https", "wss")
        self.address = f"{'https' if secure else 'http'}://{parts.netloc}"
        self._prefix = parts.path.rstrip("/")
        self.token = token
        host = parts.hostname or ""
        self._connection = (
            http.client.HTTPSConnection(host, parts.port, timeout=TIMEOUT_SECONDS, context=tls)
            if secure
            else http.client.HTTPConnection(host, parts.port, timeout=TIMEOUT_SECONDS)
        )

    def get(self, *path: str, **query: object) -> Any:
        return self._send("GET", path, query)[0]

    def find(self, *path: str) -> Found | None:
        """The value that a later `put` replaces; None if there is none. Raises `Refused`."""
        try:
            value, tag = self._send("GET", path)
        except Refused as error:
            if error.reason == "not_found":
                return None
            raise
        return Found(value, tag)

    def pages(self, *path: str, **query: object) -> Iterator[dict[str, Any]]:
        """The entries of a list, to its end."""
        cursor: str | None = ""
        while cursor is not None:
            page = self.get(*path, **query, limit=PAGE_ENTRIES, cursor=cursor or None)
            yield from page["items"]
            cursor = page.get("next")

    def post(self, *path: str, body: object = None, **query: object) -> Any:
        return self._send("POST", path, query, body)[0]

    def put(
        self,
        *path: str,
        body: object = None,
        over: Found | None = None,
        new: bool = False,
        **query: object,
    ) -> Any:
        """`over`: only if that is still what is there; `new`: only if nothing is."""
        headers = {}
        if over is not None and over.tag is not None:
            headers["If-Match"] = over.tag
        if new:
            headers["If-None-Match"] = "*"
        return self._send("PUT", path, query, body, headers)[0]

    def delete(self, *path: str, **query: object) -> Any:
        return self._send("DELETE", path, query)[0]

    def close(self) -> None:
        self._connection.close()

    def _send(
        self,
        method: str,
        path: tuple[str, ...],
        query: dict[str, object] | None = None,
        body: object = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[Any, str | None]:
        """The answer and its tag. Raises `Refused` and `Unreachable`."""
        target = f"{self._prefix}/v1/admin/" + "/".join(quote(part, safe="") for part in path)
        given = {name: value for name, value in (query or {}).items() if value is not None}
        if given:
            target += f"?{urlencode(given)}"
        sent = {"Authorization": f"Bearer {self.token}", **(headers or {})}
        data = None
        if body is not None:
            data = msgspec.json.encode(body)
            sent["Content-Type"] = "application/json"
        try:
            self._connection.request(method, target, body=data, headers=sent)
            response = self._connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException) as error:
            check_trust(error, self.address)
            hint = without_tls(self.address) if isinstance(error, http.client.HTTPException) else ""
            raise Unreachable(f"cannot reach {self.address}: {_reason(error)}{hint}") from None
        return self._understood(response.status, text), response.headers.get("ETag")

    def _understood(self, status: int, text: bytes) -> Any:
        try:
            if 200 <= status < 300:
                return msgspec.json.decode(text) if text else None
            failure = msgspec.json.decode(text, type=HttpFailure).error
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise BadRequest(
                f"{self.address} answers (with status {status}), but not as a hub does;"
                " give the address of one with --url"
            ) from None
        raise Refused(failure.code, failure.message)


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return f"TLS failed, {error.reason or error}"
    if isinstance(error, TimeoutError):
        return f"no answer within {TIMEOUT_SECONDS} seconds"
    if isinstance(error, http.client.HTTPException):
        return "it does not speak HTTP there"
    return str(getattr(error, "strerror", None) or error)
