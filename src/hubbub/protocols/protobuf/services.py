"""Calls of services and events for streams in protobuf, both ends of the wire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message as Proto

from hubbub.domain import notices, requests
from hubbub.domain.messages import BINARY
from hubbub.domain.notices import Notice
from hubbub.domain.payloads import typed_payload
from hubbub.domain.requests import Request
from hubbub.protocols import hubbub_pb2 as pb
from hubbub.protocols.service_checks import check_call, check_enqueue


def _given(proto: pb.RpcRequest | pb.StreamEnqueueRequest) -> tuple[bytes, str]:
    if proto.content_type:
        return typed_payload(proto.payload, proto.content_type)
    return proto.payload, BINARY


def _read_call(proto: pb.RpcRequest) -> Request:
    return check_call(requests.Call(proto.method, *_given(proto), proto.timeout, proto.req_id))


def _read_enqueue(proto: pb.StreamEnqueueRequest) -> Request:
    return check_enqueue(requests.Enqueue(proto.stream, proto.event, *_given(proto), proto.req_id))


REQUEST_READERS: dict[int, tuple[Callable[[bytes], Any], Callable[[Any], Request]]] = {
    pb.EventType.RPC: (pb.RpcRequest.FromString, _read_call),
    pb.EventType.StreamEnqueue: (pb.StreamEnqueueRequest.FromString, _read_enqueue),
}


def _answered(notice: notices.CallAnswered) -> bytes:
    return pb.RpcResponse(
        req_id=notice.req_id, payload=notice.payload, content_type=_unless_binary(notice)
    ).SerializeToString()


def _enqueued(notice: notices.Enqueued) -> bytes:
    return pb.StreamEnqueueResponse(
        req_id=notice.req_id, msg_id=notice.message_id
    ).SerializeToString()


NOTICE_WRITERS: dict[type, tuple[int, Callable[[Any], bytes]]] = {
    notices.CallAnswered: (pb.EventType.RPC, _answered),
    notices.Enqueued: (pb.EventType.StreamEnqueue, _enqueued),
}


# -- the client's side ----------------------------------------------------------------------------


def _write_call(request: requests.Call) -> Proto:
    return pb.RpcRequest(
        req_id=request.req_id,
        method=request.method,
        payload=request.payload,
        content_type=_unless_binary(request),
        timeout=request.timeout_seconds,
    )


def _write_enqueue(request: requests.Enqueue) -> Proto:
    return pb.StreamEnqueueRequest(
        req_id=request.req_id,
        stream=request.stream,
        event=request.event,
        payload=request.payload,
        content_type=_unless_binary(request),
    )


def _unless_binary(said: notices.CallAnswered | requests.Call | requests.Enqueue) -> str:
    return "" if said.content_type == BINARY else said.content_type


REQUEST_WRITERS: dict[type, tuple[int, Callable[[Any], Proto]]] = {
    requests.Call: (pb.EventType.RPC, _write_call),
    requests.Enqueue: (pb.EventType.StreamEnqueue, _write_enqueue),
}


def _read_answered(proto: pb.RpcResponse) -> Notice:
    return notices.CallAnswered(proto.payload, proto.content_type or BINARY, proto.req_id)


NOTICE_READERS: dict[int, tuple[Callable[[bytes], Any], Callable[[Any], Notice]]] = {
    pb.EventType.RPC: (pb.RpcResponse.FromString, _read_answered),
    pb.EventType.StreamEnqueue: (
        pb.StreamEnqueueResponse.FromString,
        lambda it: notices.Enqueued(it.msg_id, it.req_id),
    ),
}
