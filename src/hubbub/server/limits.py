"""The engine's limits from the settings."""

from __future__ import annotations

import msgspec

from hubbub.engine.documents.settings import DocumentSettings
from hubbub.engine.limits import EngineLimits
from hubbub.server.settings import Settings


def engine_limits(settings: Settings) -> EngineLimits:
    live_history = settings.engine.max_live_history_size
    limits = EngineLimits(
        traces_per_second=settings.tracing.max_per_second,
        live_history_messages=live_history if settings.channel.enable_live_history else 0,
        live_history_memory_bytes=settings.engine.live_history_memory_bytes,
        retain_seconds=settings.channel.retain_msg_duration,
        history_page=settings.channel.history_page_size,
        channel_idle_seconds=settings.channel.idle_timeout,
        hub_idle_seconds=settings.hub.close_timeout,
        unproven_hubs=settings.engine.max_unproven_hubs,
        session_messages_per_second=settings.session.messages_per_second,
        session_burst=settings.session.message_burst,
        session_channels=settings.session.max_channels,
        session_patterns=settings.session.max_patterns,
        session_matches=settings.session.max_matches,
        hub_patterns=settings.hub.max_patterns,
        hub_matches=settings.hub.max_matches,
        message_bytes=settings.connection.ws.max_message_bytes,
        authenticate_within_seconds=settings.session.authenticate_timeout,
        ping_interval_seconds=settings.connection.ws.ping_interval,
        pong_timeout_seconds=settings.connection.ws.pong_timeout,
        stream_heartbeat_seconds=settings.connection.sse.heartbeat_interval,
        restore_seconds=settings.session.restore_ttl,
        token_seconds=settings.auth.token_ttl,
        notifications=settings.channel.max_notifications,
        notification_seconds=settings.channel.notification_retention,
        notification_bytes=settings.channel.max_notification_bytes,
        retention_seconds=settings.channel.retention_interval,
        lag_seconds=settings.channel.lag_interval,
        lag_series=settings.channel.lag_series,
        session_calls=settings.session.max_calls,
        hub_calls=settings.hub.max_calls,
        call_seconds=settings.hub.call_timeout,
        subject_root=settings.broker.subject,
        rooms=tuple(settings.rooms.values()),
    )
    documents = limits.of(DocumentSettings)
    return msgspec.structs.replace(limits, document_memory_bytes=documents.memory_bytes)
