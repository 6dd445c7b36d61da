"""Notices in protobuf, as the hub writes them.

Deliveries are put together by hand, because that takes a quarter of the time of the generated
classes; everything else uses those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import msgspec

from hubbub.domain import notices
from hubbub.domain.errors import HubbubError
from hubbub.domain.messages import Message
from hubbub.domain.notices import Notice
from hubbub.domain.permissions import Grant
from hubbub.protocols import hubbub_pb2 as pb
from hubbub.protocols.protobuf import services as protobuf_services
from hubbub.protocols.protobuf import topics as protobuf_topics


def notice_payload(notice: Notice) -> tuple[int, bytes]:
    """The event and the encoded message that say this."""
    event, write = _WRITERS[type(notice)]
    return event, write(notice)


def message_payload(message: Message) -> bytes:
    """The encoded ChannelPublish that delivers a message."""
    payload, msg_id = message.payload, message.id.encode()
    serial = b"%d" % message.serial if message.serial else b""
    return b"%b\x1a%b%b\x22%b%b\x28%b%b%b" % (
        _place(message.channel, message.event),
        varint(len(payload)),
        payload,
        varint(len(msg_id)),
        msg_id,
        varint(message.published_at),
        serial and b"\x32%c%b" % (len(serial), serial),
        _kind(message.content_type, message.publisher),
    )


@lru_cache(maxsize=8192)
def varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first; the top bit says that more follow. Cached, because
    lengths come again and so do times: messages are many only when they share a millisecond."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


@lru_cache(maxsize=8192)
def _place(channel: str, event: str) -> bytes:
    """Fields 1 and 2 of ChannelPublish."""
    return pb.ChannelPublish(channel=channel, event=event).SerializeToString()


@lru_cache(maxsize=8192)
def _kind(content_type: str, publisher: str | None) -> bytes:
    """Fields 7 and 8 of ChannelPublish."""
    return pb.ChannelPublish(
        content_type=content_type, publisher=publisher or ""
    ).SerializeToString()


def _delivery(notice: notices.Delivery) -> bytes:
    rest = pb.ChannelPublish(retained=notice.retained)
    if notice.previous_serial is not None:
        rest.previous_serial = str(notice.previous_serial)
    return message_payload(notice.message) + rest.SerializeToString()


def _history_page(notice: notices.HistoryPage) -> bytes:
    page = pb.HistoryResponse(
        req_id=notice.req_id,
        channel=notice.channel,
        epoch=notice.epoch,
        head=str(notice.head) if notice.error is None else "",
        recovered=notice.recovered,
        more=notice.more,
        error=_error_or_none(notice.error),
    ).SerializeToString()
    messages = [message_payload(message) for message in notice.messages]
    return page + b"".join([b"\x1a%b%b" % (varint(len(each)), each) for each in messages])


def error_info(error: HubbubError) -> pb.ErrorInfo:
    return pb.ErrorInfo(
        code=error.code,
        message=error.message,
        retry=error.retry,
        retry_after=error.retry_after or 0.0,
    )


def _error_or_none(error: HubbubError | None) -> pb.ErrorInfo | None:
    return None if error is None else error_info(error)


def _failures(failures: Iterable[notices.ChannelFailure]) -> list[pb.ChannelFailure]:
    return [
        pb.ChannelFailure(channel=each.channel, error=error_info(each.error)) for each in failures
    ]


def _channels(channels: Iterable[notices.SubscribedChannel]) -> list[pb.SubscribedChannel]:
    return [
        pb.SubscribedChannel(
            channel=each.channel,
            epoch=each.epoch,
            serial=str(each.serial),
            recovered=each.recovered,
        )
        for each in channels
    ]


def _authorizations(grants: Iterable[Grant]) -> list[pb.ChannelAuthorization]:
    return [
        pb.ChannelAuthorization(
            channel=grant.channel, publish=grant.publish, subscribe=grant.subscribe
        )
        for grant in grants
    ]


def _json(extra: dict[str, Any]) -> bytes:
    return msgspec.json.encode(extra) if extra else b""


def _heartbeat(notice: notices.Ping | notices.Pong) -> bytes:
    return pb.Heartbeat(req_id=notice.req_id).SerializeToString()


def _failed(notice: notices.Failed) -> bytes:
    return pb.ErrorReply(req_id=notice.req_id, error=error_info(notice.error)).SerializeToString()


def _disconnect(notice: notices.Disconnect) -> bytes:
    error = notice.error
    return pb.DisconnectNotice(
        code=error.code,
        reason=error.message,
        reconnect=error.reconnect,
        retry_after=error.retry_after or 0.0,
    ).SerializeToString()


def _session_info(notice: notices.SessionInfo) -> bytes:
    return pb.SessionInfoNotice(
        hub_id=notice.hub_id,
        session_id=notice.session_id,
        hub_allow_anonymous=notice.hub_allow_anonymous,
        hub_allow_user_channel=notice.hub_allow_user_channel,
        default_public=notice.default_public,
        authenticated=notice.authenticated,
        protocol_version=notice.protocol_version,
        user_id=notice.user_id or "",
        ping_interval=notice.ping_interval_seconds,
        max_message_bytes=notice.max_message_bytes,
    ).SerializeToString()


def _authenticated(notice: notices.Authenticated) -> bytes:
    return pb.AuthResponse(
        req_id=notice.req_id,
        success=notice.error is None,
        user_id=notice.user_id or "",
        token=notice.token or "",
        channel_authorizations=_authorizations(notice.grants),
        rpc_authorizations=notice.rpcs,
        extra=_json(notice.extra),
        error=_error_or_none(notice.error),
        expires_at=notice.expires_at or 0,
    ).SerializeToString()


def _restore_key(notice: notices.RestoreKey) -> bytes:
    return pb.SessionRestoreNotice(restore_key=notice.restore_key).SerializeToString()


def _session_restored(notice: notices.SessionRestored) -> bytes:
    return pb.SessionRestoredNotice(
        user_id=notice.user_id or "",
        authorizations=_authorizations(notice.grants),
        extra=_json(notice.extra),
        subscribed_channels=[each.channel for each in notice.channels],
        rpcs=notice.rpcs,
        session_id=notice.session_id,
        req_id=notice.req_id,
        channels=_channels(notice.channels),
        failures=_failures(notice.failures),
    ).SerializeToString()


def _subscribed(notice: notices.Subscribed) -> bytes:
    return pb.SubscribeResponse(
        req_id=notice.req_id,
        subscribed_channels=[each.channel for each in notice.channels],
        failures=_failures(notice.failures),
        channels=_channels(notice.channels),
    ).SerializeToString()


def _unsubscribed(notice: notices.Unsubscribed) -> bytes:
    return pb.UnsubscribeResponse(
        req_id=notice.req_id,
        unsubscribed_channels=notice.channels,
        failures=_failures(notice.failures),
    ).SerializeToString()


def _published(notice: notices.Published) -> bytes:
    return pb.ChannelPubResponse(
        published=[_result(each) for each in notice.results]
    ).SerializeToString()


def _result(result: notices.PublishResult) -> pb.Response:
    return pb.Response(
        req_id=result.req_id,
        success=result.error is None,
        msg_id=result.message_id,
        channel_serial=str(result.serial) if result.serial else None,
        error=_error_or_none(result.error),
        duplicate=result.duplicate,
    )


def _channel_reset(notice: notices.ChannelReset) -> bytes:
    return pb.ChannelResetNotice(
        channel=notice.channel, epoch=notice.epoch, serial=str(notice.serial)
    ).SerializeToString()


def _members(members: Iterable[notices.Member]) -> list[pb.PresenceMember]:
    return [
        pb.PresenceMember(
            session_id=each.session_id,
            user_id=each.user_id or "",
            extra=_json(each.extra),
            timestamp=each.timestamp,
        )
        for each in members
    ]


def _presence(notice: notices.Presence) -> bytes:
    return pb.PresenceNotice(
        channel=notice.channel,
        presence=_members(notice.members),
        req_id=notice.req_id,
        error=_error_or_none(notice.error),
    ).SerializeToString()


def _joined_or_left(notice: notices.Joined | notices.Left) -> bytes:
    return pb.PresenceNotice(
        channel=notice.channel, presence=_members(notice.members)
    ).SerializeToString()


def _occupancy(notice: notices.Occupancy) -> bytes:
    return pb.OccupancyNotice(channel=notice.channel, count=notice.count).SerializeToString()


_WRITERS: dict[type, tuple[int, Callable[[Any], bytes]]] = {
    notices.Ping: (pb.EventType.Ping, _heartbeat),
    notices.Pong: (pb.EventType.Pong, _heartbeat),
    notices.Failed: (pb.EventType.Error, _failed),
    notices.Disconnect: (pb.EventType.Disconnect, _disconnect),
    notices.SessionInfo: (pb.EventType.SessionInfo, _session_info),
    notices.Authenticated: (pb.EventType.Auth, _authenticated),
    notices.RestoreKey: (pb.EventType.SessionRestore, _restore_key),
    notices.SessionRestored: (pb.EventType.SessionRestored, _session_restored),
    notices.Subscribed: (pb.EventType.Subscribe, _subscribed),
    notices.Unsubscribed: (pb.EventType.Unsubscribe, _unsubscribed),
    notices.Published: (pb.EventType.Ack, _published),
    notices.Delivery: (pb.EventType.Publish, _delivery),
    notices.HistoryPage: (pb.EventType.History, _history_page),
    notices.ChannelReset: (pb.EventType.ChannelReset, _channel_reset),
    notices.Presence: (pb.EventType.Presence, _presence),
    notices.Joined: (pb.EventType.Join, _joined_or_left),
    notices.Left: (pb.EventType.Leave, _joined_or_left),
    notices.Occupancy: (pb.EventType.Occupancy, _occupancy),
    **protobuf_topics.NOTICE_WRITERS,
    **protobuf_services.NOTICE_WRITERS,
}
