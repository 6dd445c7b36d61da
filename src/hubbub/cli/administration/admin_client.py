"""An HTTP client of the admin API, for administrative commands."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

import msgspec

from hubbub.cli.administration.operations import AdminOperation, operations, reader_of
from hubbub.client import Unreachable
from hubbub.client.connection.link import HttpFailure, parse_address
from hubbub.client.connection.tls import check_trust, without_tls
from hubbub.domain.errors import BadRequest, HubbubError

TIMEOUT_SECONDS = 30
PAGE_ENTRIES = 500
Path = Mapping[str, str]
"""The values of the names in the path of an operation."""


class Refused(HubbubError):
    """The server refused the request; `reason` is the code of its error."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Found(msgspec.Struct, frozen=True):
    """A stored value and the ETag of its version; no tag if the server sends none."""

    value: dict[str, Any]
    tag: str | None


class AdminClient:
    """One connection for all requests of a command."""

    def __init__(self, url: str, token: str, tls: ssl.SSLContext | None = None) -> None:
        """Raises `BadRequest` for an invalid address."""
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

    def call(
        self,
        operation: str,
        path: Path,
        *,
        body: object = None,
        over: Found | None = None,
        new: bool = False,
        **query: Any,
    ) -> Any:
        """The answer of an operation of the admin API. `over`: only if that version is current;
        `new`: only if there is none. Raises `Refused` and `Unreachable`."""
        headers = {}
        if over is not None and over.tag is not None:
            headers["If-Match"] = over.tag
        if new:
            headers["If-None-Match"] = "*"
        return self._send(operations()[operation], path, query, body, headers)[0]

    def find(self, operation: str, path: Path) -> Found | None:
        """The value that a later call replaces; None if it does not exist. Raises `Refused`."""
        try:
            value, tag = self._send(operations()[operation], path)
        except Refused as error:
            if error.reason == "not_found":
                return None
            raise
        return Found(value, tag)

    def pages(self, operation: str, path: Path, **query: Any) -> Iterator[dict[str, Any]]:
        """All entries of a list, fetched page by page."""
        cursor: str | None = ""
        while cursor is not None:
            page = self.call(operation, path, **query, limit=PAGE_ENTRIES, cursor=cursor or None)
            yield from page["items"]
            cursor = page.get("next")

    def put_fields(
        self, operation: str, path: Path, fields: Mapping[str, Any], **query: Any
    ) -> Any:
        """Creates the object, or replaces the fields that are not None of an existing one."""
        reader = reader_of(operations()[operation])
        before = self.find(reader.id, path) if reader is not None else None
        known = before.value if before is not None else {}
        given = {name: value for name, value in fields.items() if value is not None}
        return self.call(operation, path, body={**known, **given}, over=before, **query)

    def close(self) -> None:
        self._connection.close()

    def _send(
        self,
        operation: AdminOperation,
        path: Path,
        query: Mapping[str, object] | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[Any, str | None]:
        """Returns the response and its tag. Raises `Refused` and `Unreachable`."""
        target = self._prefix + operation.address(path)
        given = {name: _text(value) for name, value in (query or {}).items() if value is not None}
        if given:
            target += f"?{urlencode(given)}"
        sent = {"Authorization": f"Bearer {self.token}", **(headers or {})}
        data = None
        if body is not None:
            data = msgspec.json.encode(body)
            sent["Content-Type"] = "application/json"
        try:
            self._connection.request(operation.method, target, body=data, headers=sent)
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


def _text(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return f"TLS failed, {error.reason or error}"
    if isinstance(error, TimeoutError):
        return f"no answer within {TIMEOUT_SECONDS} seconds"
    if isinstance(error, http.client.HTTPException):
        return "it does not speak HTTP there"
    return str(getattr(error, "strerror", None) or error)
