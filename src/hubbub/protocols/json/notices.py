"""Notices in JSON, as the hub writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import msgspec

from hubbub.domain import notices
from hubbub.domain.errors import HubbubError
from hubbub.domain.messages import JSON, Message
from hubbub.domain.notices import Notice
from hubbub.domain.permissions import Grant
from hubbub.protocols.json import services as json_services
from hubbub.protocols.json import shapes as shapes
from hubbub.protocols.json import topics as json_topics

_encode = msgspec.json.Encoder().encode


def notice_shape(notice: Notice) -> tuple[str, shapes.Shape]:
    """The event and payload that say this."""
    event, shape = _WRITERS[type(notice)]
    return event, shape(notice)


def message_json(message: Message) -> bytes:
    """The text of `_message`, for the message that has just been published: once for each,
    and put together from known parts where that is faster."""
    if message.content_type != JSON:
        return _encode(_message(message))
    return b'%b%b},"msgID":%b,"ts":%d%b%b' % (
        _place(message.channel, message.event),
        message.payload,
        _encode(message.id),
        message.published_at,
        b',"channelSerial":"%d"' % message.serial if message.serial else b"",
        _end(message.publisher),
    )


@lru_cache(maxsize=8192)
def _place(channel: str, event: str) -> bytes:
    return b'{"channel":%b,"event":%b,"payload":{"json":' % (_encode(channel), _encode(event))


@lru_cache(maxsize=8192)
def _end(publisher: str | None) -> bytes:
    return b"}" if publisher is None else b',"publisher":%b}' % _encode(publisher)


def _message(message: Message) -> shapes.ChannelPublish:
    return shapes.write_message(shapes.ChannelPublish, message)


def _delivery(notice: notices.Delivery) -> shapes.Shape:
    shape = _message(notice.message)
    shape.retained = notice.retained
    if notice.previous_serial is not None:
        shape.previous_serial = str(notice.previous_serial)
    return shape


def _error(error: HubbubError) -> shapes.ErrorInfo:
    return shapes.ErrorInfo(error.code, error.message, error.retry, error.retry_after)


def _error_or_none(error: HubbubError | None) -> shapes.ErrorInfo | None:
    return None if error is None else _error(error)


def _failures(failures: Iterable[notices.ChannelFailure]) -> tuple[shapes.ChannelFailure, ...]:
    return tuple(shapes.ChannelFailure(each.channel, _error(each.error)) for each in failures)


def _channels(
    channels: Iterable[notices.SubscribedChannel],
) -> tuple[shapes.SubscribedChannel, ...]:
    return tuple(
        shapes.SubscribedChannel(each.channel, each.epoch, str(each.serial), each.recovered)
        for each in channels
    )


def _authorizations(grants: Iterable[Grant]) -> tuple[shapes.ChannelAuthorization, ...]:
    return tuple(
        shapes.ChannelAuthorization(grant.channel, grant.publish, grant.subscribe)
        for grant in grants
    )


def _heartbeat(notice: notices.Ping | notices.Pong) -> shapes.Shape:
    return shapes.Heartbeat(notice.req_id or None)


def _failed(notice: notices.Failed) -> shapes.Shape:
    return shapes.ErrorReply(_error(notice.error), notice.req_id or None)


def _disconnect(notice: notices.Disconnect) -> shapes.Shape:
    error = notice.error
    return shapes.DisconnectNotice(error.code, error.message, error.reconnect, error.retry_after)


def _session_info(notice: notices.SessionInfo) -> shapes.Shape:
    return shapes.SessionInfoNotice(
        hub_id=notice.hub_id,
        session_id=notice.session_id,
        hub_allow_anonymous=notice.hub_allow_anonymous,
        hub_allow_user_channel=notice.hub_allow_user_channel,
        default_public=notice.default_public,
        authenticated=notice.authenticated,
        protocol_version=notice.protocol_version,
        ping_interval=notice.ping_interval_seconds,
        user_id=notice.user_id,
        max_message_bytes=notice.max_message_bytes or None,
    )


def _authenticated(notice: notices.Authenticated) -> shapes.Shape:
    return shapes.AuthResponse(
        success=notice.error is None,
        req_id=notice.req_id or None,
        user_id=notice.user_id,
        token=notice.token,
        channel_authorizations=_authorizations(notice.grants),
        rpc_authorizations=notice.rpcs,
        extra=notice.extra,
        error=_error_or_none(notice.error),
        expires_at=notice.expires_at,
    )


def _restore_key(notice: notices.RestoreKey) -> shapes.Shape:
    return shapes.SessionRestoreNotice(notice.restore_key)


def _session_restored(notice: notices.SessionRestored) -> shapes.Shape:
    return shapes.SessionRestoredNotice(
        session_id=notice.session_id,
        subscribed_channels=tuple(each.channel for each in notice.channels),
        channels=_channels(notice.channels),
        failures=_failures(notice.failures),
        req_id=notice.req_id or None,
        user_id=notice.user_id,
        authorizations=_authorizations(notice.grants),
        extra=notice.extra,
        rpcs=notice.rpcs,
    )


def _subscribed(notice: notices.Subscribed) -> shapes.Shape:
    return shapes.SubscribeResponse(
        subscribed_channels=tuple(each.channel for each in notice.channels),
        channels=_channels(notice.channels),
        failures=_failures(notice.failures),
        req_id=notice.req_id or None,
    )


def _unsubscribed(notice: notices.Unsubscribed) -> shapes.Shape:
    return shapes.UnsubscribeResponse(
        notice.channels, _failures(notice.failures), notice.req_id or None
    )


def _published(notice: notices.Published) -> shapes.Shape:
    return shapes.ChannelPubResponse(tuple(_result(each) for each in notice.results))


def _result(result: notices.PublishResult) -> shapes.Response:
    return shapes.Response(
        result.req_id,
        result.error is None,
        result.message_id,
        str(result.serial) if result.serial else None,
        _error_or_none(result.error),
        result.duplicate,
    )


def _history_page(notice: notices.HistoryPage) -> shapes.Shape:
    return shapes.HistoryResponse(
        channel=notice.channel,
        messages=tuple(_message(message) for message in notice.messages),
        recovered=notice.recovered,
        more=notice.more,
        req_id=notice.req_id or None,
        epoch=notice.epoch,
        head=str(notice.head) if notice.error is None else None,
        error=_error_or_none(notice.error),
    )


def _channel_reset(notice: notices.ChannelReset) -> shapes.Shape:
    return shapes.ChannelResetNotice(notice.channel, notice.epoch, str(notice.serial))


def _members(members: Iterable[notices.Member]) -> tuple[shapes.PresenceMember, ...]:
    return tuple(
        shapes.PresenceMember(each.session_id, each.timestamp, each.user_id, each.extra)
        for each in members
    )


def _presence(notice: notices.Presence) -> shapes.Shape:
    return shapes.PresenceNotice(
        notice.channel,
        _members(notice.members),
        notice.req_id or None,
        _error_or_none(notice.error),
    )


def _joined_or_left(notice: notices.Joined | notices.Left) -> shapes.Shape:
    return shapes.PresenceNotice(notice.channel, _members(notice.members))


def _occupancy(notice: notices.Occupancy) -> shapes.Shape:
    return shapes.OccupancyNotice(notice.channel, notice.count)


_WRITERS: dict[type, tuple[str, Callable[[Any], shapes.Shape]]] = {
    notices.Ping: ("Ping", _heartbeat),
    notices.Pong: ("Pong", _heartbeat),
    notices.Failed: ("Error", _failed),
    notices.Disconnect: ("Disconnect", _disconnect),
    notices.SessionInfo: ("SessionInfo", _session_info),
    notices.Authenticated: ("Auth", _authenticated),
    notices.RestoreKey: ("SessionRestore", _restore_key),
    notices.SessionRestored: ("SessionRestored", _session_restored),
    notices.Subscribed: ("Subscribe", _subscribed),
    notices.Unsubscribed: ("Unsubscribe", _unsubscribed),
    notices.Published: ("Ack", _published),
    notices.Delivery: ("Publish", _delivery),
    notices.HistoryPage: ("History", _history_page),
    notices.ChannelReset: ("ChannelReset", _channel_reset),
    notices.Presence: ("Presence", _presence),
    notices.Joined: ("Join", _joined_or_left),
    notices.Left: ("Leave", _joined_or_left),
    notices.Occupancy: ("Occupancy", _occupancy),
    **json_topics.NOTICE_WRITERS,
    **json_services.NOTICE_WRITERS,
}
