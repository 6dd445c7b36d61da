"""The answer to one HTTP request, as the doors give it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Protocol

import msgspec

from hubbub.domain.errors import HubbubError, Internal
from hubbub.gateways.http import (
    OK_JSON,
    TEXT_UTF8,
    WITHOUT_BODY,
    Head,
    error_body,
    error_headers,
    error_text,
    response_head,
)
from hubbub.ports.connection import Pausable

logger = logging.getLogger(__name__)


class Asking(Pausable, Protocol):
    """The connection that a request came over."""

    transport: asyncio.Transport
    peer: str

    def finish(self, data: bytes, keep_alive: bool) -> None:
        """An answer is complete: send it, then turn to the next request."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Work for this connection, given up if the client goes away."""

    def complete(self, work: Coroutine[Any, Any, None]) -> None:
        """The same, to its end."""

    def flush(self) -> None:
        """Write the answers that wait for the end of the turn."""

    def hand_over(self, protocol: asyncio.Protocol) -> None:
        """From now on the transport belongs to another protocol."""


class Exchange(msgspec.Struct, eq=False):
    """The answer to one request, to be given exactly once."""

    connection: Asking
    _head: Head
    _answered: bool = False
    extra_headers: bytes = b""
    """Complete header lines that every answer gets (CORS)."""
    text_errors: bool = False
    """Errors are said in plain text, for clients that may know nothing of JSON."""

    def answer_json(self, body: bytes) -> None:
        """The common case, kept cheap."""
        if self.extra_headers or not self._head.plain:
            self.answer(200, body)
        elif not self._answered:
            self._answered = True
            self.connection.finish(b"%b%d\r\n\r\n%b" % (OK_JSON, len(body), body), True)

    def answer(
        self, status: int, body: bytes, content_type: str = "application/json", headers: str = ""
    ) -> None:
        head = response_head(status, content_type, len(body), headers, self._head.keep_alive)
        if self._head.method == b"HEAD" or status in WITHOUT_BODY:
            body = b""
        self._finish(head.encode("latin-1") + self.extra_headers + b"\r\n" + body)

    def fail(self, error: HubbubError) -> None:
        headers = error_headers(error)
        if self.text_errors:
            headers += f"Hubbub-Error: {error.code}\r\n"
            self.answer(error.http_status, error_text(error), TEXT_UTF8, headers)
        else:
            self.answer(error.http_status, error_body(error), headers=headers)

    def run(self, work: Coroutine[Any, Any, bytes | None]) -> None:
        """Answer later; whatever happens, the client gets an answer. The work either gives it or
        comes to its JSON. It is given up if the client goes away."""
        self.connection.spawn(self.guard(work))

    def complete(self, work: Coroutine[Any, Any, bytes | None]) -> None:
        """The same for work that changes something, which a client that goes away must not cut in
        half."""
        self.connection.complete(self.guard(work))

    async def guard(self, work: Coroutine[Any, Any, bytes | None]) -> None:
        """The work, whose errors are answered. Who runs it decides when it is given up."""
        try:
            said = await work
            if said is not None:
                self.answer_json(said)
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
