"""Calls of services, over HTTP or NATS, by route.

A service over HTTP receives a POST: the payload as the body with its content type, the headers of
the route, and `Hubbub-Hub`, `Hubbub-Method`, `Hubbub-User` and `Hubbub-Session`. A status of 2xx is
a result, 4xx a refusal whose text is forwarded, anything else a failure.

A service over NATS receives a `ServiceCall` on its subject, and responds with a `ServiceReply`.
Without a route the subject is `{prefix}.rpc.{hub}.{method}`: a service only has to listen there.
"""

from __future__ import annotations

from google.protobuf.message import DecodeError

from hubbub.connectors.auth_providers import NO_NATS
from hubbub.connectors.http_posting import header_safe, post
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
from hubbub.domain.messages import BINARY
from hubbub.domain.payloads import is_utf8, untouched_payload
from hubbub.domain.rules import NATS_SCHEME, RpcRoute
from hubbub.domain.services import ServiceCall, ServiceReply
from hubbub.domain.subjects import rpc_prefix, words
from hubbub.ports.broker import Broker, BrokerReply, NobodyThere
from hubbub.ports.outgoing import HttpResponse, Outgoing, SendFailed
from hubbub.protocols import hubbub_pb2 as pb

MAX_REASON_CHARS = 500
ERROR_HEADER = "Nats-Service-Error"
ERROR_CODE_HEADER = "Nats-Service-Error-Code"
"""The error header of services that follow the NATS micro conventions."""


class ServiceConnector:
    """Implements `ports.services.ServiceCaller`. `broker`: None without NATS; `prefix`: the root of
    the subjects of methods without a route."""

    def __init__(self, outgoing: Outgoing, broker: Broker | None = None, prefix: str = "") -> None:
        self._outgoing = outgoing
        self._broker = broker
        self._prefix = prefix

    async def call(
        self, route: RpcRoute | None, call: ServiceCall, seconds: float, max_bytes: int
    ) -> ServiceReply:
        try:
            if route is not None and not route.url.startswith(NATS_SCHEME):
                return await self._call_over_http(route, call, seconds, max_bytes)
            if self._broker is not None:
                return await self._call_over_nats(self._broker, route, call, seconds, max_bytes)
        except TimeoutError:
            raise ServiceTimeout(
                f"the service for {call.method!r} did not answer in {seconds:g} s; "
                "it may have done its work"
            ) from None
        if route is not None:
            told = f"the service for {call.method!r} is away"
            raise ServiceUnavailable(told, f"{told}: {NO_NATS}")
        raise ServiceNotFound(
            f"hub {call.hub!r} has no service for {call.method!r}; add a route for it"
        )

    async def _call_over_http(
        self, route: RpcRoute, call: ServiceCall, seconds: float, max_bytes: int
    ) -> ServiceReply:
        request = post(call.hub, route.url, call.payload, _headers(route, call), seconds, max_bytes)
        try:
            answer = await self._outgoing.send("call", request, route.addresses or "public")
        except SendFailed as error:
            if error.word == "timeout":
                raise TimeoutError from None
            if error.word == "too_large":
                raise _too_large(call, max_bytes) from None
            if error.word == "busy":
                raise Overloaded(f"{error.message}; try again later") from None
            raise _unreachable(call, error.word) from None
        except BadRequest:
            raise _unreachable(call, "its URL cannot be used") from None
        return _from_http(call, answer)

    async def _call_over_nats(
        self,
        broker: Broker,
        route: RpcRoute | None,
        call: ServiceCall,
        seconds: float,
        max_bytes: int,
    ) -> ServiceReply:
        subject = (
            f"{rpc_prefix(self._prefix, call.hub)}.{words(call.method)}"
            if route is None
            else route.url.removeprefix(NATS_SCHEME)
        )
        request = pb.ServiceCall(
            hub_id=call.hub,
            method=call.method,
            payload=call.payload,
            content_type=call.content_type,
            user_id=call.user_id or "",
            session_id=call.session_id or "",
        )
        try:
            async with self._outgoing.slot(call.hub, "call", subject, seconds) as left:
                reply = await broker.request(subject, request.SerializeToString(), left)
        except NobodyThere as error:
            raise _unreachable(call, str(error)) from None
        return _from_nats(call, reply, max_bytes)


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


def _from_http(call: ServiceCall, answer: HttpResponse) -> ServiceReply:
    if 200 <= answer.status < 300:
        return _checked(call, answer.body, answer.headers.get("content-type"))
    if 400 <= answer.status < 500:
        raise _refused(call, answer.body.decode() if is_utf8(answer.body) else "")
    raise ServiceFailed(f"the service for {call.method!r} answered with status {answer.status}")


def _from_nats(call: ServiceCall, reply: BrokerReply, max_bytes: int) -> ServiceReply:
    problem = reply.headers.get(ERROR_HEADER)
    if problem is not None:
        if reply.headers.get(ERROR_CODE_HEADER, "").startswith("4"):
            raise _refused(call, problem)
        raise ServiceFailed(f"the service for {call.method!r} failed")
    try:
        answer = pb.ServiceAnswer.FromString(reply.data)
    except DecodeError:
        raise ServiceFailed(
            f"the service for {call.method!r} answered in a form that cannot be read"
        ) from None
    if answer.error:
        raise _refused(call, answer.error)
    if len(answer.payload) > max_bytes:
        raise _too_large(call, max_bytes)
    return _checked(call, answer.payload, answer.content_type or BINARY)


def _checked(call: ServiceCall, body: bytes, content_type: str | None) -> ServiceReply:
    """Checks the payload against its content type, since payloads are spliced into frames. Raises
    `ServiceFailed`."""
    try:
        return ServiceReply(*untouched_payload(body, content_type))
    except InvalidPayload as error:
        raise ServiceFailed(
            f"the service for {call.method!r} answered what it should not: {error.message}"
        ) from None


def _refused(call: ServiceCall, reason: str) -> ServiceRefused:
    shown = "".join(letter if letter.isprintable() else " " for letter in reason).strip()
    return ServiceRefused(shown[:MAX_REASON_CHARS] or f"the service refused {call.method!r}")


def _unreachable(call: ServiceCall, reason: str) -> ServiceUnavailable:
    return ServiceUnavailable(f"the service for {call.method!r} cannot be reached: {reason}")


def _too_large(call: ServiceCall, max_bytes: int) -> ServiceFailed:
    return ServiceFailed(f"the service for {call.method!r} answered more than {max_bytes} bytes")
