"""Services over HTTP: a call becomes a POST, and what comes back the answer.

The service gets the payload as the body with its content type, the headers that the route names,
and `Hubbub-Hub`, `Hubbub-Method`, `Hubbub-User` and `Hubbub-Session`. A status of 2xx is an answer,
4xx a refusal whose text is passed on, everything else a failure.
"""

from __future__ import annotations

import asyncio

import aiohttp

from hubbub.connectors.http_posting import HttpPoster, Posted, header_safe
from hubbub.domain.errors import (
    InvalidPayload,
    ServiceFailed,
    ServiceNotFound,
    ServiceRefused,
    ServiceTimeout,
    ServiceUnavailable,
)
from hubbub.domain.payloads import is_utf8, untouched_payload
from hubbub.domain.rules import RpcRoute
from hubbub.domain.services import ServiceAnswer, ServiceCall

MAX_REASON_CHARS = 500


class HttpServices:
    """Implements `ports.services.ServiceCaller`."""

    def __init__(self) -> None:
        self._poster = HttpPoster()

    async def close(self) -> None:
        await self._poster.close()

    async def call(
        self, route: RpcRoute | None, call: ServiceCall, seconds: float, max_bytes: int
    ) -> ServiceAnswer:
        if route is None:
            raise ServiceNotFound(
                f"hub {call.hub!r} has no service for {call.method!r}; add a route for it"
            )
        try:
            async with asyncio.timeout(seconds):
                posted = await self._poster.post(
                    route.url, call.payload, _headers(route, call), max_bytes
                )
        except TimeoutError:
            raise timed_out(call, seconds) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ServiceUnavailable(
                f"the service for {call.method!r} cannot be reached: {type(error).__name__}"
            ) from None
        return _answer(call, posted, max_bytes)


def timed_out(call: ServiceCall, seconds: float) -> ServiceTimeout:
    return ServiceTimeout(
        f"the service for {call.method!r} did not answer in {seconds:g} s; "
        "it may have done its work"
    )


def too_large(call: ServiceCall, max_bytes: int) -> ServiceFailed:
    return ServiceFailed(f"the service for {call.method!r} answered more than {max_bytes} bytes")


def refused(call: ServiceCall, reason: str) -> ServiceRefused:
    shown = "".join(letter if letter.isprintable() else " " for letter in reason).strip()
    return ServiceRefused(shown[:MAX_REASON_CHARS] or f"the service refused {call.method!r}")


def checked_answer(call: ServiceCall, body: bytes, content_type: str | None) -> ServiceAnswer:
    """What is spliced into frames must be what its content type claims."""
    try:
        return ServiceAnswer(*untouched_payload(body, content_type))
    except InvalidPayload as error:
        raise ServiceFailed(
            f"the service for {call.method!r} answered what it should not: {error.message}"
        ) from None


def _headers(route: RpcRoute, call: ServiceCall) -> dict[str, str]:
    headers = {
        "Content-Type": call.content_type,
        **route.headers,
        "Hubbub-Hub": header_safe(call.hub),
        "Hubbub-Method": header_safe(call.method),
    }
    if call.user_id is not None:
        headers["Hubbub-User"] = header_safe(call.user_id)
    if call.session_id is not None:
        headers["Hubbub-Session"] = call.session_id
    return headers


def _answer(call: ServiceCall, posted: Posted, max_bytes: int) -> ServiceAnswer:
    if posted.body is None:
        raise too_large(call, max_bytes)
    if 200 <= posted.status < 300:
        return checked_answer(call, posted.body, posted.content_type)
    if 400 <= posted.status < 500:
        raise refused(call, posted.body.decode() if is_utf8(posted.body) else "")
    raise ServiceFailed(f"the service for {call.method!r} answered with status {posted.status}")
