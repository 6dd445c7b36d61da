"""Services over HTTP: a call becomes a POST, and what comes back the answer.

The service gets the payload as the body with its content type, the headers that the route names,
and `Hubbub-Hub`, `Hubbub-Method`, `Hubbub-User` and `Hubbub-Session`. A status of 2xx is an answer,
4xx a refusal whose text is passed on, everything else a failure.
"""

from __future__ import annotations

from hubbub.connectors.http_posting import header_safe, post, reach_of
from hubbub.domain.errors import (
    BadRequest,
    InvalidPayload,
    Overloaded,
    ServiceFailed,
    ServiceNotFound,
    ServiceRefused,
    ServiceTimeout,
    ServiceUnavailable,
)
from hubbub.domain.payloads import is_utf8, untouched_payload
from hubbub.domain.rules import RpcRoute
from hubbub.domain.services import ServiceAnswer, ServiceCall
from hubbub.ports.outgoing import HttpResponse, Outgoing, SendFailed

MAX_REASON_CHARS = 500


class HttpServices:
    """Implements `ports.services.ServiceCaller`."""

    def __init__(self, outgoing: Outgoing) -> None:
        self._outgoing = outgoing

    async def call(
        self, route: RpcRoute | None, call: ServiceCall, seconds: float, max_bytes: int
    ) -> ServiceAnswer:
        if route is None:
            raise ServiceNotFound(
                f"hub {call.hub!r} has no service for {call.method!r}; add a route for it"
            )
        headers = _headers(route, call)
        request = post(call.hub, route.url, call.payload, headers, seconds, max_bytes)
        try:
            answer = await self._outgoing.send("call", request, reach_of(route.addresses))
        except SendFailed as error:
            if error.word == "timeout":
                raise timed_out(call, seconds) from None
            if error.word == "too_large":
                raise too_large(call, max_bytes) from None
            if error.word == "busy":
                raise Overloaded(f"{error.message}; try again later") from None
            raise _unreachable(call, error.word) from None
        except BadRequest:
            raise _unreachable(call, "its URL cannot be used") from None
        return _answer(call, answer)


def _unreachable(call: ServiceCall, reason: str) -> ServiceUnavailable:
    return ServiceUnavailable(f"the service for {call.method!r} cannot be reached: {reason}")


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
    """Payload and content type, checked against each other, since payloads are spliced into frames.
    Raises `ServiceFailed`."""
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


def _answer(call: ServiceCall, answer: HttpResponse) -> ServiceAnswer:
    if 200 <= answer.status < 300:
        return checked_answer(call, answer.body, answer.headers.get("content-type"))
    if 400 <= answer.status < 500:
        raise refused(call, answer.body.decode() if is_utf8(answer.body) else "")
    raise ServiceFailed(f"the service for {call.method!r} answered with status {answer.status}")
