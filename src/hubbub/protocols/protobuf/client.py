"""The client's side of the protobuf protocol: requests onto the wire, notices from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from google.protobuf.message import Message as Proto

from hubbub.domain import notices, requests
from hubbub.domain.errors import HubbubError
from hubbub.domain.messages import BINARY
from hubbub.domain.notices import Notice
from hubbub.domain.permissions import Grant
from hubbub.domain.requests import PublishItem, Request
from hubbub.protocols import hubbub_pb2 as pb
from hubbub.protocols.envelopes import error_from_wire
from hubbub.protocols.protobuf import services as protobuf_services
from hubbub.protocols.protobuf import topics_client as protobuf_topics_client
from hubbub.protocols.protobuf.messages import read_message, read_serial


def request_proto(request: Request) -> tuple[int, Proto]:
    """The event and message that ask for this."""
    try:
        event, write = _WRITERS[type(request)]
    except KeyError:
        raise TypeError(f"a client cannot send {type(request).__name__}") from None
    return event, write(request)


def _write_heartbeat(request: requests.Ping | requests.Pong) -> Proto:
    return pb.Heartbeat(req_id=request.req_id)


def _write_close(request: requests.Close) -> Proto:
    return pb.Heartbeat()


def _write_auth(request: requests.Authenticate) -> Proto:
    return pb.AuthRequest(
        req_id=request.req_id, token=request.token or "", credentials=request.credentials or b""
    )


def _write_restore(request: requests.Restore) -> Proto:
    return pb.SessionRestoreNotice(
        restore_key=request.restore_key,
        req_id=request.req_id,
        positions=[
            pb.Position(channel=each.channel, epoch=each.epoch, serial=str(each.serial))
            for each in request.positions
        ],
    )


def _write_subscribe(request: requests.Subscribe) -> Proto:
    channels = [
        pb.ChannelSubscribeInfo(
            channel=each.channel,
            timestamp=each.timestamp,
            serial=_decimal(each.serial),
            epoch=each.epoch,
        )
        for each in request.channels
    ]
    return pb.SubscribeRequest(req_id=request.req_id, channels=channels)


def _write_unsubscribe(request: requests.Unsubscribe) -> Proto:
    return pb.UnsubscribeRequest(req_id=request.req_id, channels=request.channels)


def _write_publish(request: requests.Publish) -> Proto:
    return pb.ChannelPubRequest(publishes=[_write_item(item) for item in request.items])


def _write_item(item: PublishItem) -> pb.PubRequestInfo:
    extra = None
    if item.store or item.push or item.retain or item.transient:
        extra = pb.ChannelPubExtras(
            store=item.store, push=item.push, retain=item.retain, transient=item.transient
        )
    return pb.PubRequestInfo(
        channel=item.channel,
        event=item.event,
        payload=item.payload,
        extra=extra,
        req_id=item.req_id,
        content_type="" if item.content_type == BINARY else item.content_type,
        producer=None if item.producer is None else _write_producer(item.producer),
    )


def _write_producer(producer: requests.Producer) -> pb.ProducerInfo:
    return pb.ProducerInfo(
        id=producer.id, sequence=str(producer.sequence), fence=str(producer.fence)
    )


def _write_history(request: requests.History) -> Proto:
    return pb.HistoryRequest(
        req_id=request.req_id,
        channel=request.channel,
        after=_decimal(request.after),
        before=_decimal(request.before),
        after_time=request.after_time,
        before_time=request.before_time,
        epoch=request.epoch,
        limit=request.limit,
    )


def _write_presence(request: requests.PresenceQuery) -> Proto:
    return pb.PresenceRequest(req_id=request.req_id, channel=request.channel)


def _decimal(serial: int | None) -> str | None:
    return None if serial is None else str(serial)


_WRITERS: dict[type, tuple[int, Callable[[Any], Proto]]] = {
    requests.Ping: (pb.EventType.Ping, _write_heartbeat),
    requests.Pong: (pb.EventType.Pong, _write_heartbeat),
    requests.Close: (pb.EventType.Close, _write_close),
    requests.Authenticate: (pb.EventType.Auth, _write_auth),
    requests.Restore: (pb.EventType.SessionRestore, _write_restore),
    requests.Subscribe: (pb.EventType.Subscribe, _write_subscribe),
    requests.Unsubscribe: (pb.EventType.Unsubscribe, _write_unsubscribe),
    requests.Publish: (pb.EventType.Publish, _write_publish),
    requests.History: (pb.EventType.History, _write_history),
    requests.PresenceQuery: (pb.EventType.Presence, _write_presence),
    **protobuf_topics_client.REQUEST_WRITERS,
    **protobuf_services.REQUEST_WRITERS,
}


def read_notice(event: int, payload: bytes) -> Notice | None:
    """What the hub says, or None for an event that this version does not know."""
    if event not in _READERS:
        return None
    parse, read = _READERS[event]
    return read(parse(payload))


def _error(proto: pb.ErrorInfo) -> HubbubError:
    return error_from_wire(proto.code, proto.message)


def _failures(found: Iterable[pb.ChannelFailure]) -> tuple[notices.ChannelFailure, ...]:
    return tuple(notices.ChannelFailure(each.channel, _error(each.error)) for each in found)


def _channels(found: Iterable[pb.SubscribedChannel]) -> tuple[notices.SubscribedChannel, ...]:
    return tuple(
        notices.SubscribedChannel(
            each.channel, each.epoch, read_serial(each.serial), each.recovered
        )
        for each in found
    )


def _grants(found: Iterable[pb.ChannelAuthorization]) -> tuple[Grant, ...]:
    return tuple(Grant(each.channel, each.publish, each.subscribe) for each in found)


def _members(found: Iterable[pb.PresenceMember]) -> tuple[notices.Member, ...]:
    return tuple(
        notices.Member(
            each.session_id, each.user_id or None, _from_json(each.extra), each.timestamp
        )
        for each in found
    )


def _from_json(extra: bytes) -> dict[str, Any]:
    return msgspec.json.decode(extra, type=dict[str, Any]) if extra else {}


def _session_info(proto: pb.SessionInfoNotice) -> Notice:
    return notices.SessionInfo(
        hub_id=proto.hub_id,
        session_id=proto.session_id,
        hub_allow_anonymous=proto.hub_allow_anonymous,
        hub_allow_user_channel=proto.hub_allow_user_channel,
        default_public=proto.default_public,
        authenticated=proto.authenticated,
        user_id=proto.user_id or None,
        ping_interval_seconds=proto.ping_interval,
        protocol_version=proto.protocol_version,
        max_message_bytes=proto.max_message_bytes,
    )


def _authenticated(proto: pb.AuthResponse) -> Notice:
    return notices.Authenticated(
        req_id=proto.req_id,
        error=_error(proto.error) if proto.HasField("error") else None,
        user_id=proto.user_id or None,
        token=proto.token or None,
        grants=_grants(proto.channel_authorizations),
        rpcs=tuple(proto.rpc_authorizations),
        extra=_from_json(proto.extra),
        expires_at=proto.expires_at or None,
    )


def _session_restored(proto: pb.SessionRestoredNotice) -> Notice:
    return notices.SessionRestored(
        session_id=proto.session_id,
        user_id=proto.user_id or None,
        grants=_grants(proto.authorizations),
        rpcs=tuple(proto.rpcs),
        extra=_from_json(proto.extra),
        channels=_channels(proto.channels),
        failures=_failures(proto.failures),
        req_id=proto.req_id,
    )


def _subscribed(proto: pb.SubscribeResponse) -> Notice:
    return notices.Subscribed(_channels(proto.channels), _failures(proto.failures), proto.req_id)


def _unsubscribed(proto: pb.UnsubscribeResponse) -> Notice:
    return notices.Unsubscribed(
        tuple(proto.unsubscribed_channels), _failures(proto.failures), proto.req_id
    )


def _result(proto: pb.Response) -> notices.PublishResult:
    return notices.PublishResult(
        proto.req_id,
        proto.msg_id if proto.HasField("msg_id") else None,
        read_serial(proto.channel_serial),
        _error(proto.error) if proto.HasField("error") else None,
        proto.duplicate,
    )


def _delivery(proto: pb.ChannelPublish) -> Notice:
    previous = read_serial(proto.previous_serial) if proto.HasField("previous_serial") else None
    return notices.Delivery(read_message(proto), proto.retained, previous)


def _history_page(proto: pb.HistoryResponse) -> Notice:
    return notices.HistoryPage(
        channel=proto.channel,
        messages=tuple(read_message(each) for each in proto.messages),
        epoch=proto.epoch,
        head=read_serial(proto.head),
        recovered=proto.recovered,
        more=proto.more,
        req_id=proto.req_id,
        error=_error(proto.error) if proto.HasField("error") else None,
    )


def _presence(proto: pb.PresenceNotice) -> Notice:
    error = _error(proto.error) if proto.HasField("error") else None
    return notices.Presence(proto.channel, _members(proto.presence), proto.req_id, error)


_READERS: dict[int, tuple[Callable[[bytes], Any], Callable[[Any], Notice]]] = {
    pb.EventType.Ping: (pb.Heartbeat.FromString, lambda it: notices.Ping(it.req_id)),
    pb.EventType.Pong: (pb.Heartbeat.FromString, lambda it: notices.Pong(it.req_id)),
    pb.EventType.Error: (
        pb.ErrorReply.FromString,
        lambda it: notices.Failed(_error(it.error), it.req_id),
    ),
    pb.EventType.Disconnect: (
        pb.DisconnectNotice.FromString,
        lambda it: notices.Disconnect(error_from_wire(it.code, it.reason)),
    ),
    pb.EventType.SessionInfo: (pb.SessionInfoNotice.FromString, _session_info),
    pb.EventType.Auth: (pb.AuthResponse.FromString, _authenticated),
    pb.EventType.SessionRestore: (
        pb.SessionRestoreNotice.FromString,
        lambda it: notices.RestoreKey(it.restore_key),
    ),
    pb.EventType.SessionRestored: (pb.SessionRestoredNotice.FromString, _session_restored),
    pb.EventType.Subscribe: (pb.SubscribeResponse.FromString, _subscribed),
    pb.EventType.Unsubscribe: (pb.UnsubscribeResponse.FromString, _unsubscribed),
    pb.EventType.Ack: (
        pb.ChannelPubResponse.FromString,
        lambda it: notices.Published(tuple(_result(each) for each in it.published)),
    ),
    pb.EventType.Publish: (pb.ChannelPublish.FromString, _delivery),
    pb.EventType.History: (pb.HistoryResponse.FromString, _history_page),
    pb.EventType.ChannelReset: (
        pb.ChannelResetNotice.FromString,
        lambda it: notices.ChannelReset(it.channel, it.epoch, read_serial(it.serial)),
    ),
    pb.EventType.Presence: (pb.PresenceNotice.FromString, _presence),
    pb.EventType.Join: (
        pb.PresenceNotice.FromString,
        lambda it: notices.Joined(it.channel, _members(it.presence)),
    ),
    pb.EventType.Leave: (
        pb.PresenceNotice.FromString,
        lambda it: notices.Left(it.channel, _members(it.presence)),
    ),
    pb.EventType.Occupancy: (
        pb.OccupancyNotice.FromString,
        lambda it: notices.Occupancy(it.channel, it.count),
    ),
    **protobuf_topics_client.NOTICE_READERS,
    **protobuf_services.NOTICE_READERS,
}
