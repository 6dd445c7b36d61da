"""The admin API for services over NATS: the same table, in protobuf, on a subject per operation.

A request on `{prefix}.admin.{operation}` contains path, query, body and a token: access to the bus
grants no permissions. Failures are answered with a NACK, with the reason in the reply and in the
headers of the NATS conventions."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any
from urllib.parse import urlencode

import msgspec
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from google.protobuf.struct_pb2 import Value

from hubbub.domain.errors import (
    BadRequest,
    HubbubError,
    Internal,
    Malformed,
    NotFound,
    Timeout,
    TooLarge,
)
from hubbub.domain.fields import whole_numbers
from hubbub.fair_slots import FairPlaces
from hubbub.gateways.admin.app import AdminApplication
from hubbub.gateways.admin.nats_publishing import OVER_NATS, NatsPublisher
from hubbub.gateways.micro import EndpointStats, MicroService
from hubbub.gateways.routes import Access, AdminResponse, AnyRoute
from hubbub.ports.broker import Broker, BrokerReply, BrokerRequest
from hubbub.protocols import hubbub_pb2 as pb
from hubbub.protocols.protobuf.events import error_info

logger = logging.getLogger(__name__)

GROUP = "hubbub"
"""The queue group: one of the nodes that serve a subject responds."""
PUBLISH = "publish"
_OFFERED = (Access.CLIENT, Access.SERVICE, Access.ADMIN)
_MAX_DEPTH = 100
_AT_ONCE = 256
_WAITING = 768


class AdminOverNats:
    def __init__(
        self,
        application: AdminApplication,
        publisher: NatsPublisher,
        routes: list[AnyRoute],
        prefix: str,
        timeout_seconds: float,
    ) -> None:
        self._timeout_seconds = timeout_seconds
        self._max_bytes = 0
        self._places = FairPlaces(_AT_ONCE, _WAITING, "requests over NATS")
        self._application = application
        self._publisher = publisher
        self._prefix = f"{prefix}.admin"
        self._routes = {
            route.operation_id: route
            for route in routes
            if route.handler is not None and route.access in _OFFERED
        }
        self.about = {
            PUBLISH: "Publish messages, with a result for each",
            **{name: route.summary for name, route in self._routes.items()},
        }
        self.endpoints = {
            name: EndpointStats(name, f"{self._prefix}.{name}", GROUP) for name in self.about
        }

    async def start(self, broker: Broker, micro: MicroService) -> None:
        self._max_bytes = broker.max_bytes
        await broker.serve(f"{self._prefix}.*", GROUP, self._answer)
        await micro.start(broker)

    async def _answer(self, asked: BrokerRequest) -> BrokerReply:
        operation = asked.subject.removeprefix(f"{self._prefix}.")
        began = time.perf_counter()
        error: HubbubError | None = None
        reply = b""
        try:
            async with asyncio.timeout(self._timeout_seconds):
                reply = self._fitting(await self._perform(operation, asked.data))
        except HubbubError as problem:
            error = problem
        except TimeoutError:
            error = Timeout(f"the request took more than {self._timeout_seconds:g} s")
        except Exception:
            logger.exception("an administrative request failed in an unforeseen way")
            error = Internal("the hub failed to handle the request")
        if operation in self.endpoints:
            self.endpoints[operation].count(time.perf_counter() - began, error)
        return BrokerReply(reply) if error is None else nack(error)

    def _fitting(self, reply: pb.AdminReply) -> bytes:
        data = reply.SerializeToString()
        if len(data) > self._max_bytes:
            raise TooLarge(
                f"the answer has {len(data)} bytes, and NATS takes {self._max_bytes}; "
                "ask for less, or over HTTP"
            )
        return data

    async def _perform(self, operation: str, data: bytes) -> pb.AdminReply:
        if operation == PUBLISH:
            publishing = _read(pb.AdminPublishRequest, data)
            async with self._places.slot(publishing.hub_id):
                return await self._publisher.publish(publishing)
        route = self._routes.get(operation)
        if route is None:
            raise NotFound(
                f"there is no operation {operation[:60]!r}; $SRV.INFO.hubbub lists those there are"
            )
        request = _read(pb.AdminRequest, data)
        path = _path(route, request)
        async with self._places.slot(path.get("hub", "")):
            answer = await self._application.answer(
                route,
                path,
                _headers(request),
                urlencode(dict(request.query)).encode(),
                _body(request),
                OVER_NATS,
            )
        return _reply(answer)


def nack(error: HubbubError) -> BrokerReply:
    headers = {
        "Nats-Service-Error": f"{error.code}: {_one_line(error.message)}",
        "Nats-Service-Error-Code": str(error.http_status),
    }
    return BrokerReply(
        pb.AdminReply(ack=False, error=error_info(error)).SerializeToString(), headers
    )


def _one_line(text: str) -> str:
    """Headers are single lines of ASCII."""
    plain = text.encode("ascii", "replace").decode()
    return "".join(letter if letter.isprintable() else " " for letter in plain)[:500]


def _read(kind: Any, data: bytes) -> Any:
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise Malformed(f"the request is not a {kind.__name__}: {error}") from None


def _path(route: AnyRoute, request: pb.AdminRequest) -> dict[str, str]:
    path = dict(request.path)
    wanted = set(route.parameters)
    if path.keys() != wanted or not all(path.values()):
        names = ", ".join(sorted(wanted)) or "nothing"
        raise BadRequest(f"`path` must have {names}; it has {', '.join(sorted(path)) or 'nothing'}")
    return path


def _headers(request: pb.AdminRequest) -> dict[bytes, bytes]:
    headers: dict[bytes, bytes] = {}
    for name, value in (
        (b"authorization", f"Bearer {request.token}" if request.token else ""),
        (b"if-match", request.if_match),
        (b"if-none-match", request.if_none_match),
    ):
        if value:
            try:
                headers[name] = value.encode("latin-1")
            except UnicodeEncodeError:
                raise Malformed(f"{name.decode()} holds what no token or tag has") from None
    return headers


def _body(request: pb.AdminRequest) -> bytes:
    if not request.HasField("body") or request.body.WhichOneof("kind") is None:
        return b""
    try:
        return msgspec.json.encode(whole_numbers(json_format.MessageToDict(request.body)))
    except (json_format.SerializeToJsonError, RecursionError, ValueError) as error:
        raise Malformed(f"the body cannot be read: {error}") from None


def _reply(answer: AdminResponse) -> pb.AdminReply:
    reply = pb.AdminReply(ack=True, version=answer.version or 0)
    value = answer.value
    if value is not None:
        plain = msgspec.json.decode(
            value if isinstance(value, bytes) else msgspec.json.encode(value)
        )
        try:
            reply.body.CopyFrom(
                json_format.ParseDict(plain, Value(), max_recursion_depth=_MAX_DEPTH)
            )
        except json_format.ParseError:
            raise TooLarge("the answer is nested too deeply for protobuf; ask over HTTP") from None
    return reply
