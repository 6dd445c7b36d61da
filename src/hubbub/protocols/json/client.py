"""The client's side of the JSON protocol: requests onto the wire, notices from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from hubbub.domain import notices, requests
from hubbub.domain.errors import HubbubError
from hubbub.domain.messages import BINARY, TEXT
from hubbub.domain.notices import Notice
from hubbub.domain.payloads import is_utf8
from hubbub.domain.permissions import Grant
from hubbub.domain.requests import PublishItem, Request
from hubbub.protocols.envelopes import error_from_wire
from hubbub.protocols.json import services as json_services
from hubbub.protocols.json import shapes as shapes
from hubbub.protocols.json import topics_client as json_topics_client

_S = TypeVar("_S", bound=shapes.Shape)


def request_shape(request: Request) -> tuple[str, shapes.Shape]:
    """The event and payload that ask for this."""
    try:
        event, shape = _WRITERS[type(request)]
    except KeyError:
        raise TypeError(f"a client cannot send {type(request).__name__}") from None
    return event, shape(request)


def _heartbeat_shape(request: requests.Ping | requests.Pong) -> shapes.Shape:
    return shapes.Heartbeat(request.req_id or None)


def _close_shape(request: requests.Close) -> shapes.Shape:
    return shapes.Heartbeat()


def _auth_shape(request: requests.Authenticate) -> shapes.Shape:
    credentials = None
    if request.credentials is not None:
        written_as = TEXT if is_utf8(request.credentials) else BINARY
        credentials, _ = shapes.write_payload(request.credentials, written_as)
    return shapes.AuthRequest(request.req_id or None, request.token, credentials)


def _restore_shape(request: requests.Restore) -> shapes.Shape:
    positions = tuple(
        shapes.Position(position.channel, str(position.serial), position.epoch or None)
        for position in request.positions
    )
    return shapes.SessionRestoreNotice(
        request.restore_key, request.req_id or None, positions or None
    )


def _subscribe_shape(request: requests.Subscribe) -> shapes.Shape:
    channels = tuple(
        shapes.ChannelSubscribeInfo(
            channel.channel, channel.timestamp, _decimal(channel.serial), channel.epoch
        )
        for channel in request.channels
    )
    return shapes.SubscribeRequest(channels, request.req_id or None)


def _unsubscribe_shape(request: requests.Unsubscribe) -> shapes.Shape:
    return shapes.UnsubscribeRequest(request.channels, request.req_id or None)


def _publish_shape(request: requests.Publish) -> shapes.Shape:
    return shapes.ChannelPubRequest([_item_shape(item) for item in request.items])


def _item_shape(item: PublishItem) -> shapes.PubRequestInfo:
    extra = None
    if item.store or item.push or item.retain or item.transient:
        extra = shapes.ChannelPubExtras(item.store, item.push, item.retain, item.transient)
    payload, content_type = shapes.write_payload(item.payload, item.content_type)
    return shapes.PubRequestInfo(
        item.channel,
        payload,
        item.event or None,
        extra,
        item.req_id,
        content_type,
        None if item.producer is None else _producer_shape(item.producer),
    )


def _producer_shape(producer: requests.Producer) -> shapes.ProducerInfo:
    return shapes.ProducerInfo(producer.id, str(producer.sequence), str(producer.fence))


def _history_shape(request: requests.History) -> shapes.Shape:
    return shapes.HistoryRequest(
        request.channel,
        request.req_id or None,
        _decimal(request.after),
        _decimal(request.before),
        request.after_time,
        request.before_time,
        request.epoch,
        request.limit or None,
    )


def _presence_shape(request: requests.PresenceQuery) -> shapes.Shape:
    return shapes.PresenceRequest(request.channel, request.req_id or None)


def _decimal(serial: int | None) -> str | None:
    return None if serial is None else str(serial)


_WRITERS: dict[type, tuple[str, Callable[[Any], shapes.Shape]]] = {
    requests.Ping: ("Ping", _heartbeat_shape),
    requests.Pong: ("Pong", _heartbeat_shape),
    requests.Close: ("Close", _close_shape),
    requests.Authenticate: ("Auth", _auth_shape),
    requests.Restore: ("SessionRestore", _restore_shape),
    requests.Subscribe: ("Subscribe", _subscribe_shape),
    requests.Unsubscribe: ("Unsubscribe", _unsubscribe_shape),
    requests.Publish: ("Publish", _publish_shape),
    requests.History: ("History", _history_shape),
    requests.PresenceQuery: ("Presence", _presence_shape),
    **json_topics_client.REQUEST_WRITERS,
    **json_services.REQUEST_WRITERS,
}


def read_notice(event: str, payload: Raw) -> Notice | None:
    """What the hub says, or None for an event that this version does not know."""
    reader = _READERS.get(event)
    return reader(payload) if reader else None


def _reader(shape: type[_S], read: Callable[[_S], Notice]) -> Callable[[Raw], Notice]:
    decode = msgspec.json.Decoder(shape).decode
    return lambda payload: read(decode(payload))


def _error(shape: shapes.ErrorInfo) -> HubbubError:
    return error_from_wire(shape.code, shape.message)


def _error_or_none(shape: shapes.ErrorInfo | None) -> HubbubError | None:
    return None if shape is None else _error(shape)


def _failures(found: Iterable[shapes.ChannelFailure]) -> tuple[notices.ChannelFailure, ...]:
    return tuple(notices.ChannelFailure(each.channel, _error(each.error)) for each in found)


def _channels(found: Iterable[shapes.SubscribedChannel]) -> tuple[notices.SubscribedChannel, ...]:
    return tuple(
        notices.SubscribedChannel(each.channel, each.epoch, int(each.serial), each.recovered)
        for each in found
    )


def _grants(found: Iterable[shapes.ChannelAuthorization]) -> tuple[Grant, ...]:
    return tuple(Grant(each.channel, each.publish, each.subscribe) for each in found)


def _members(found: Iterable[shapes.PresenceMember]) -> tuple[notices.Member, ...]:
    return tuple(
        notices.Member(each.session_id, each.user_id, each.extra, each.timestamp) for each in found
    )


def _session_info(shape: shapes.SessionInfoNotice) -> Notice:
    return notices.SessionInfo(
        hub_id=shape.hub_id,
        session_id=shape.session_id,
        hub_allow_anonymous=shape.hub_allow_anonymous,
        hub_allow_user_channel=shape.hub_allow_user_channel,
        default_public=shape.default_public,
        authenticated=shape.authenticated,
        user_id=shape.user_id,
        ping_interval_seconds=shape.ping_interval,
        protocol_version=shape.protocol_version,
        max_message_bytes=shape.max_message_bytes or 0,
    )


def _authenticated(shape: shapes.AuthResponse) -> Notice:
    return notices.Authenticated(
        req_id=shape.req_id or 0,
        error=_error_or_none(shape.error),
        user_id=shape.user_id,
        token=shape.token,
        grants=_grants(shape.channel_authorizations),
        rpcs=shape.rpc_authorizations,
        extra=shape.extra,
        expires_at=shape.expires_at,
    )


def _session_restored(shape: shapes.SessionRestoredNotice) -> Notice:
    return notices.SessionRestored(
        session_id=shape.session_id,
        user_id=shape.user_id,
        grants=_grants(shape.authorizations),
        rpcs=shape.rpcs,
        extra=shape.extra,
        channels=_channels(shape.channels),
        failures=_failures(shape.failures),
        req_id=shape.req_id or 0,
    )


def _published(shape: shapes.ChannelPubResponse) -> Notice:
    return notices.Published(
        tuple(
            notices.PublishResult(
                each.req_id,
                each.msg_id,
                int(each.channel_serial or 0),
                _error_or_none(each.error),
                each.duplicate,
            )
            for each in shape.published
        )
    )


def _delivery(shape: shapes.ChannelPublish) -> Notice:
    previous = None if shape.previous_serial is None else int(shape.previous_serial)
    return notices.Delivery(shapes.read_message(shape), shape.retained, previous)


def _history_page(shape: shapes.HistoryResponse) -> Notice:
    return notices.HistoryPage(
        channel=shape.channel,
        messages=tuple(shapes.read_message(each) for each in shape.messages),
        epoch=shape.epoch,
        head=int(shape.head or 0),
        recovered=shape.recovered,
        more=shape.more,
        req_id=shape.req_id or 0,
        error=_error_or_none(shape.error),
    )


def _presence(shape: shapes.PresenceNotice) -> Notice:
    return notices.Presence(
        shape.channel, _members(shape.presence), shape.req_id or 0, _error_or_none(shape.error)
    )


_READERS: dict[str, Callable[[Raw], Notice]] = {
    "Ping": _reader(shapes.Heartbeat, lambda it: notices.Ping(it.req_id or 0)),
    "Pong": _reader(shapes.Heartbeat, lambda it: notices.Pong(it.req_id or 0)),
    "Error": _reader(
        shapes.ErrorReply, lambda it: notices.Failed(_error(it.error), it.req_id or 0)
    ),
    "Disconnect": _reader(
        shapes.DisconnectNotice,
        lambda it: notices.Disconnect(error_from_wire(it.code, it.reason)),
    ),
    "SessionInfo": _reader(shapes.SessionInfoNotice, _session_info),
    "Auth": _reader(shapes.AuthResponse, _authenticated),
    "SessionRestore": _reader(
        shapes.SessionRestoreNotice, lambda it: notices.RestoreKey(it.restore_key)
    ),
    "SessionRestored": _reader(shapes.SessionRestoredNotice, _session_restored),
    "Subscribe": _reader(
        shapes.SubscribeResponse,
        lambda it: notices.Subscribed(
            _channels(it.channels), _failures(it.failures), it.req_id or 0
        ),
    ),
    "Unsubscribe": _reader(
        shapes.UnsubscribeResponse,
        lambda it: notices.Unsubscribed(
            it.unsubscribed_channels, _failures(it.failures), it.req_id or 0
        ),
    ),
    "Ack": _reader(shapes.ChannelPubResponse, _published),
    "Publish": _reader(shapes.ChannelPublish, _delivery),
    "History": _reader(shapes.HistoryResponse, _history_page),
    "ChannelReset": _reader(
        shapes.ChannelResetNotice,
        lambda it: notices.ChannelReset(it.channel, it.epoch, int(it.serial)),
    ),
    "Presence": _reader(shapes.PresenceNotice, _presence),
    "Join": _reader(
        shapes.PresenceNotice, lambda it: notices.Joined(it.channel, _members(it.presence))
    ),
    "Leave": _reader(
        shapes.PresenceNotice, lambda it: notices.Left(it.channel, _members(it.presence))
    ),
    "Occupancy": _reader(
        shapes.OccupancyNotice, lambda it: notices.Occupancy(it.channel, it.count)
    ),
    **{
        event: _reader(shape, read)
        for event, (shape, read) in (
            *json_topics_client.NOTICE_READERS.items(),
            *json_services.NOTICE_READERS.items(),
        )
    },
}
