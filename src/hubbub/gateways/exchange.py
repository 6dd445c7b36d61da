"""The response to one HTTP request."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Protocol

import msgspec

from hubbub.domain.errors import HubbubError, Internal
from hubbub.gateways.content_headers import own, passive
from hubbub.gateways.http import (
    OK_JSON,
    TEXT_UTF8,
    WITHOUT_BODY,
    RequestHead,
    error_body,
    error_headers,
    error_text,
    response_head,
)
from hubbub.ports.connection import Pausable

logger = logging.getLogger(__name__)


class Asking(Pausable, Protocol):
    """The connection from which a request came."""

    transport: asyncio.Transport
    peer: str

    def finish(self, data: bytes, keep_alive: bool) -> None:
        """Sends a complete response, then reads the next request."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Starts work for this connection, cancelled when the client disconnects."""

    def complete(self, work: Coroutine[Any, Any, None]) -> None:
        """Starts work for this connection that is not cancelled."""

    def ends_with_client(self, task: asyncio.Task[None]) -> None:
        """Cancels the task, which responds to the current request, when the client disconnects."""

    def flush(self) -> None:
        """Writes the responses that wait for the end of the turn."""

    def hand_over(self, protocol: asyncio.Protocol) -> None:
        """Hands the transport to another protocol."""


class HttpExchange(msgspec.Struct, eq=False):
    """The response to one request, sent exactly once."""

    connection: Asking
    _head: RequestHead
    _answered: bool = False
    extra_headers: bytes = b""
    """Complete header lines for every response (CORS)."""
    text_errors: bool = False
    """Errors are sent as plain text, for clients without JSON."""

    def answer_json(self, body: bytes) -> None:
        """The most frequent case, optimised."""
        if self.extra_headers or not self._head.plain:
            self.answer(200, body)
        elif not self._answered:
            self._answered = True
            self.connection.finish(b"%b%d\r\n\r\n%b" % (OK_JSON, len(body), body), True)

    def answer(
        self, status: int, body: bytes, content_type: str = "application/json", headers: str = ""
    ) -> None:
        """A tenant may have determined the body and its type: see `content_headers`."""
        self._answer(status, body, passive(content_type), headers)

    def answer_own(self, status: int, body: bytes, content_type: str, headers: str = "") -> None:
        """Sends a page or file of the hub itself, which browsers may execute."""
        self._answer(status, body, own(content_type), headers)

    def _answer(self, status: int, body: bytes, content: str, headers: str) -> None:
        head = response_head(status, content, len(body), headers, self._head.keep_alive)
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
        """Responds later. The work either responds itself or returns the JSON; errors become
        responses. It is cancelled when the client disconnects."""
        self.connection.spawn(self.guard(work))

    def complete(self, work: Coroutine[Any, Any, bytes | None]) -> None:
        """Like `run`, for work that changes something and is not cancelled."""
        self.connection.complete(self.guard(work))

    async def guard(self, work: Coroutine[Any, Any, bytes | None]) -> None:
        """Wraps work so that its errors become responses. The caller decides about cancellation."""
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
