"""Services over NATS: a `ServiceCall` on the method's subject, answered by a `ServiceAnswer`.

Without a route the subject is `{prefix}.rpc.{hub}.{method}`: a service only has to listen there.
"""

from __future__ import annotations

from google.protobuf.message import DecodeError

from hubbub.connectors.service_http import checked_answer, refused, timed_out, too_large
from hubbub.domain.errors import ServiceFailed, ServiceUnavailable
from hubbub.domain.messages import BINARY
from hubbub.domain.rules import NATS_SCHEME, RpcRoute
from hubbub.domain.services import ServiceAnswer, ServiceCall
from hubbub.domain.subjects import rpc_prefix, words
from hubbub.ports.broker import Broker, NobodyThere, Reply
from hubbub.ports.outgoing import Outgoing
from hubbub.protocols import hubbub_pb2 as pb

ERROR_HEADER = "Nats-Service-Error"
ERROR_CODE_HEADER = "Nats-Service-Error-Code"
"""How services that follow the conventions of NATS micro say that something is wrong."""


class NatsServices:
    """Implements `ports.services.ServiceCaller`."""

    def __init__(self, broker: Broker, outgoing: Outgoing, prefix: str) -> None:
        self._broker = broker
        self._outgoing = outgoing
        self._prefix = prefix

    async def call(
        self, route: RpcRoute | None, call: ServiceCall, seconds: float, max_bytes: int
    ) -> ServiceAnswer:
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
                reply = await self._broker.request(subject, request.SerializeToString(), left)
        except TimeoutError:
            raise timed_out(call, seconds) from None
        except NobodyThere as error:
            raise ServiceUnavailable(
                f"the service for {call.method!r} cannot be reached: {error}"
            ) from None
        return _answer(call, reply, max_bytes)


def _answer(call: ServiceCall, reply: Reply, max_bytes: int) -> ServiceAnswer:
    problem = reply.headers.get(ERROR_HEADER)
    if problem is not None:
        if reply.headers.get(ERROR_CODE_HEADER, "").startswith("4"):
            raise refused(call, problem)
        raise ServiceFailed(f"the service for {call.method!r} failed")
    try:
        answer = pb.ServiceAnswer.FromString(reply.data)
    except DecodeError:
        raise ServiceFailed(
            f"the service for {call.method!r} answered in a form that cannot be read"
        ) from None
    if answer.error:
        raise refused(call, answer.error)
    if len(answer.payload) > max_bytes:
        raise too_large(call, max_bytes)
    return checked_answer(call, answer.payload, answer.content_type or BINARY)
