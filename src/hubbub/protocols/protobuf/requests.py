"""Requests in protobuf, as the hub reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.message import DecodeError

from hubbub.domain import requests
from hubbub.domain.errors import HubbubError, Malformed
from hubbub.domain.messages import BINARY
from hubbub.domain.payloads import typed_payload
from hubbub.domain.requests import Producer, PublishItem, Rejected, Request
from hubbub.protocols import hubbub_pb2 as pb
from hubbub.protocols.envelopes import (
    check_batch,
    check_bounds,
    check_event_name,
    check_proof,
    parse_serial,
    unknown_event,
)
from hubbub.protocols.protobuf import services as protobuf_services
from hubbub.protocols.protobuf import topics as protobuf_topics

_PUBLISH = pb.EventType.Publish
_NAMES: dict[int, str] = {number: name for name, number in pb.EventType.items()}


def read_request(event: int, payload: bytes) -> list[Request]:
    """All that the envelope asks for. What cannot be read of it comes back as rejections."""
    try:
        if event == _PUBLISH:
            return _read_publish(payload)
        if event not in _READERS:
            return [Rejected(unknown_event(_NAMES.get(event, str(event))), _req_id_of(payload))]
        parse, read = _READERS[event]
        return [read(parse(payload))]
    except DecodeError as error:
        return [Rejected(Malformed(f"{_NAMES[event]}: {error}"), _req_id_of(payload))]
    except HubbubError as error:
        return [Rejected(error, _req_id_of(payload))]


def _req_id_of(payload: bytes) -> int:
    """The id of a request that may be wrong in every other way; 0 where there is none. Nearly all
    requests have it where a heartbeat has its own, which checks nothing else."""
    try:
        return pb.Heartbeat.FromString(payload).req_id
    except DecodeError:
        return 0


def _read_ping(proto: pb.Heartbeat) -> Request:
    return requests.Ping(proto.req_id)


def _read_pong(proto: pb.Heartbeat) -> Request:
    return requests.Pong(proto.req_id)


def _read_close(proto: pb.Heartbeat) -> Request:
    return requests.Close()


def _read_auth(proto: pb.AuthRequest) -> Request:
    return check_proof(
        requests.Authenticate(proto.req_id, proto.token or None, proto.credentials or None)
    )


def _read_restore(proto: pb.SessionRestoreNotice) -> Request:
    check_batch("SessionRestore", len(proto.positions))
    if not proto.restore_key:
        raise Malformed("SessionRestore: `restore_key` is empty")
    positions = tuple(
        requests.Position(
            position.channel,
            parse_serial(position.serial, f"SessionRestore: `positions[{index}].serial`"),
            position.epoch,
        )
        for index, position in enumerate(proto.positions)
    )
    return requests.Restore(proto.restore_key, proto.req_id, positions)


def _read_subscribe(proto: pb.SubscribeRequest) -> Request:
    check_batch("Subscribe", len(proto.channels))
    channels = tuple(_channel(channel, index) for index, channel in enumerate(proto.channels))
    return requests.Subscribe(channels, proto.req_id)


def _channel(proto: pb.ChannelSubscribeInfo, index: int) -> requests.ChannelRequest:
    serial = None
    if proto.HasField("serial"):
        serial = parse_serial(proto.serial, f"Subscribe: `channels[{index}].serial`")
    return requests.ChannelRequest(
        proto.channel,
        proto.timestamp if proto.HasField("timestamp") else None,
        serial,
        proto.epoch if proto.HasField("epoch") else None,
    )


def _read_unsubscribe(proto: pb.UnsubscribeRequest) -> Request:
    check_batch("Unsubscribe", len(proto.channels))
    return requests.Unsubscribe(tuple(proto.channels), proto.req_id)


def _read_history(proto: pb.HistoryRequest) -> Request:
    after = parse_serial(proto.after, "History: `after`") if proto.HasField("after") else None
    before = parse_serial(proto.before, "History: `before`") if proto.HasField("before") else None
    return check_bounds(
        requests.History(
            proto.channel,
            proto.req_id,
            after,
            before,
            proto.after_time if proto.HasField("after_time") else None,
            proto.before_time if proto.HasField("before_time") else None,
            proto.epoch if proto.HasField("epoch") else None,
            proto.limit,
        )
    )


def _read_presence(proto: pb.PresenceRequest) -> Request:
    return requests.PresenceQuery(proto.channel, proto.req_id)


_READERS: dict[int, tuple[Callable[[bytes], Any], Callable[[Any], Request]]] = {
    pb.EventType.Ping: (pb.Heartbeat.FromString, _read_ping),
    pb.EventType.Pong: (pb.Heartbeat.FromString, _read_pong),
    pb.EventType.Close: (pb.Heartbeat.FromString, _read_close),
    pb.EventType.Auth: (pb.AuthRequest.FromString, _read_auth),
    pb.EventType.SessionRestore: (pb.SessionRestoreNotice.FromString, _read_restore),
    pb.EventType.Subscribe: (pb.SubscribeRequest.FromString, _read_subscribe),
    pb.EventType.Unsubscribe: (pb.UnsubscribeRequest.FromString, _read_unsubscribe),
    pb.EventType.History: (pb.HistoryRequest.FromString, _read_history),
    pb.EventType.Presence: (pb.PresenceRequest.FromString, _read_presence),
    **protobuf_topics.REQUEST_READERS,
    **protobuf_services.REQUEST_READERS,
}


def _read_publish(payload: bytes) -> list[Request]:
    # A slice is a list: iterating over the repeated field itself takes eight times as long.
    publishes = pb.ChannelPubRequest.FromString(payload).publishes[:]
    check_batch("Publish", len(publishes))
    try:
        return [requests.Publish(tuple([read_item(each) for each in publishes]))]
    except HubbubError:
        return _read_items_apart(publishes)


def _read_items_apart(publishes: list[pb.PubRequestInfo]) -> list[Request]:
    """A Publish with something wrong in it: the other items are published all the same, since
    each is answered by itself."""
    items: list[PublishItem] = []
    rejected: list[Request] = []
    for proto in publishes:
        try:
            items.append(read_item(proto))
        except HubbubError as error:
            rejected.append(Rejected(error, proto.req_id))
    return [requests.Publish(tuple(items)), *rejected] if items else rejected


def read_item(proto: pb.PubRequestInfo) -> PublishItem:
    event = proto.event
    if event:
        check_event_name(event)
    content_type = proto.content_type
    if content_type:
        body, content_type = typed_payload(proto.payload, content_type)
    else:
        body, content_type = proto.payload, BINARY
    req_id: int | None = proto.req_id
    if not req_id and not proto.HasField("req_id"):
        req_id = None
    producer = _producer(proto.producer) if proto.HasField("producer") else None
    if producer is None and not proto.HasField("extra"):
        return PublishItem(
            proto.channel, event, body, content_type, False, False, False, False, req_id
        )
    extra = proto.extra
    return PublishItem(
        proto.channel,
        event,
        body,
        content_type,
        extra.store,
        extra.push,
        extra.retain,
        extra.transient,
        req_id,
        producer,
    )


def _producer(proto: pb.ProducerInfo) -> Producer:
    where = "Publish: `producer`"
    sequence = parse_serial(proto.sequence, f"{where}: `sequence`")
    fence = parse_serial(proto.fence, f"{where}: `fence`") if proto.HasField("fence") else 0
    return Producer(proto.id, sequence, fence)
