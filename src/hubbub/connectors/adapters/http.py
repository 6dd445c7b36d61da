"""HTTP requests of adapters through the hub's gate, with uniform handling of responses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from hubbub.connectors.adapters.failures import Concealer, raise_send_failed
from hubbub.domain.errors import BadRequest
from hubbub.domain.setting import Setting
from hubbub.domain.setting_checks import header_problems, url_problem
from hubbub.ports.adapters import AdapterContext, AdapterFailed, TemporaryFailure
from hubbub.ports.outgoing import USER_AGENT, HttpRequest, HttpResponse, SendFailed

RETRIED = (408, 425, 429)
"""Statuses below 500 that mean "try again later"."""
_ANSWER_BYTES = 1024 * 1024


class HttpSettings(Setting, frozen=True):
    """Base of settings with a URL or headers; rejects values that are invalid in HTTP."""

    def __post_init__(self) -> None:
        for name in ("url", "homeserver"):
            url = getattr(self, name, None)
            if url is not None and (problem := url_problem(url)) is not None:
                raise ValueError(f"`{name}` {problem}")
        authorization = getattr(self, "authorization", "")
        if not (authorization.isascii() and authorization.isprintable()):
            raise ValueError("`authorization` holds what HTTP does not allow (value hidden)")
        for key, problem in header_problems(getattr(self, "headers", {})):
            raise ValueError(f"`{key}` {problem}")


class AdapterHttp:
    """HTTP requests of one adapter. `secrets` are removed from every text."""

    def __init__(
        self, context: AdapterContext, secrets: Iterable[str | None], timeout_seconds: float
    ) -> None:
        self._context = context
        self._timeout_seconds = timeout_seconds
        self.conceal = Concealer(secrets)

    async def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        max_bytes: int = _ANSWER_BYTES,
        timeout_seconds: float | None = None,
    ) -> HttpResponse:
        """Returns the response, whatever its status. Raises `AdapterFailed` or
        `TemporaryFailure`."""
        request = HttpRequest(
            self._context.hub,
            method,
            url,
            tuple(_named(headers).items()),
            body,
            timeout_seconds=timeout_seconds or self._timeout_seconds,
            max_answer_bytes=max_bytes,
        )
        try:
            return await self._context.outgoing.send("adapter", request, self._context.reach)
        except SendFailed as error:
            raise_send_failed(error, self.conceal)
        except BadRequest as error:
            raise AdapterFailed(self.conceal(error.message)) from None

    def failure(self, answer: HttpResponse, reason: object = "") -> Exception:
        """The error for an unsuccessful response. `reason`: the server's own text."""
        word = f": {self.conceal(reason)}" if reason else ""
        text = f"the server answered with status {answer.status}{word}"
        if answer.status in RETRIED or answer.status >= 500:
            return TemporaryFailure(text, answer.retry_after_seconds(self._context.clock.now()))
        return AdapterFailed(text)


def _named(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Adds the hub's name unless the settings give another."""
    given = any(name.lower() == "user-agent" for name in headers)
    return headers if given else {"User-Agent": USER_AGENT, **headers}


def with_authorization(headers: dict[str, str], authorization: str) -> dict[str, str]:
    return {**headers, "Authorization": authorization} if authorization else headers


def is_success(answer: HttpResponse) -> bool:
    return 200 <= answer.status < 300


def json_object(body: bytes) -> dict[str, Any]:
    """Empty if the body is not a JSON object."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
