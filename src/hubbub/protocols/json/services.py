"""Calls of services and events for streams in JSON, both ends of the wire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw

from hubbub.domain import notices, requests
from hubbub.domain.notices import Notice
from hubbub.domain.payloads import typed_payload
from hubbub.domain.requests import Request
from hubbub.protocols.json.shapes import (
    Int64,
    Payload,
    Shape,
    given_payload,
    read_payload,
    write_payload,
)
from hubbub.protocols.service_checks import check_call, check_enqueue


class RpcRequest(Shape):
    method: str
    payload: Payload
    content_type: str | None = None
    timeout: float | None = None
    req_id: Int64 | None = None


class RpcResponse(Shape):
    payload: Payload
    content_type: str | None = None
    req_id: Int64 | None = None


class StreamEnqueueRequest(Shape):
    stream: str
    payload: Payload
    event: str | None = None
    content_type: str | None = None
    req_id: Int64 | None = None


class StreamEnqueueResponse(Shape):
    msg_id: str
    req_id: Int64 | None = None


_call = msgspec.json.Decoder(RpcRequest).decode
_enqueue = msgspec.json.Decoder(StreamEnqueueRequest).decode


def _given(event: str, shape: RpcRequest | StreamEnqueueRequest) -> tuple[bytes, str]:
    body, content_type = given_payload(shape.payload, f"{event}: `$.payload.payload`")
    if shape.content_type:
        return typed_payload(body, shape.content_type)
    return body, content_type


def _read_call(payload: Raw) -> Request:
    shape = _call(payload)
    body, content_type = _given("RPC", shape)
    return check_call(
        requests.Call(shape.method, body, content_type, shape.timeout or 0.0, shape.req_id or 0)
    )


def _read_enqueue(payload: Raw) -> Request:
    shape = _enqueue(payload)
    body, content_type = _given("StreamEnqueue", shape)
    return check_enqueue(
        requests.Enqueue(shape.stream, shape.event or "", body, content_type, shape.req_id or 0)
    )


REQUEST_READERS: dict[str, Callable[[Raw], Request]] = {
    "RPC": _read_call,
    "StreamEnqueue": _read_enqueue,
}


def _answered(notice: notices.CallAnswered) -> Shape:
    payload, content_type = write_payload(notice.payload, notice.content_type)
    return RpcResponse(payload, content_type, notice.req_id or None)


def _enqueued(notice: notices.Enqueued) -> Shape:
    return StreamEnqueueResponse(notice.message_id, notice.req_id or None)


NOTICE_WRITERS: dict[type, tuple[str, Callable[[Any], Shape]]] = {
    notices.CallAnswered: ("RPC", _answered),
    notices.Enqueued: ("StreamEnqueue", _enqueued),
}


# -- the client's side ----------------------------------------------------------------------------


def _call_shape(request: requests.Call) -> Shape:
    payload, content_type = write_payload(request.payload, request.content_type)
    return RpcRequest(
        request.method,
        payload,
        content_type,
        request.timeout_seconds or None,
        request.req_id or None,
    )


def _enqueue_shape(request: requests.Enqueue) -> Shape:
    payload, content_type = write_payload(request.payload, request.content_type)
    return StreamEnqueueRequest(
        request.stream, payload, request.event or None, content_type, request.req_id or None
    )


REQUEST_WRITERS: dict[type, tuple[str, Callable[[Any], Shape]]] = {
    requests.Call: ("RPC", _call_shape),
    requests.Enqueue: ("StreamEnqueue", _enqueue_shape),
}


def _read_answered(shape: RpcResponse) -> Notice:
    body, written_as = read_payload(shape.payload)
    return notices.CallAnswered(body, shape.content_type or written_as, shape.req_id or 0)


def _read_enqueued(shape: StreamEnqueueResponse) -> Notice:
    return notices.Enqueued(shape.msg_id, shape.req_id or 0)


NOTICE_READERS: dict[str, tuple[type[Any], Callable[[Any], Notice]]] = {
    "RPC": (RpcResponse, _read_answered),
    "StreamEnqueue": (StreamEnqueueResponse, _read_enqueued),
}
