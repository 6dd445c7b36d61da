"""The engine's limits; settings fill them in."""

from __future__ import annotations

from typing import TypeVar

import msgspec

S = TypeVar("S", bound=msgspec.Struct)


class EngineLimits(msgspec.Struct, frozen=True):
    """Sizes in bytes, times in seconds; 0 disables a limit that can be disabled."""

    live_history_messages: int = 100
    live_history_bytes: int = 1024 * 1024
    """Per channel."""
    live_history_memory_bytes: int = 128 * 1024 * 1024
    """For the live histories of all channels together."""
    traces_per_second: int = 0
    """Per hub, if tracing is enabled."""
    retain_seconds: float = 7 * 24 * 3600.0
    history_page: int = 100
    channel_idle_seconds: float = 60.0
    hub_idle_seconds: float = 300.0
    unproven_hubs: int = 1000
    session_messages_per_second: float = 0.0
    session_burst: float = 0.0
    session_channels: int = 128
    session_patterns: int = 20
    session_matches: int = 10_000
    """Channels that a session may follow only by patterns."""
    hub_patterns: int = 100
    hub_matches: int = 200_000
    """Channels that all sessions of a hub on a node may follow only by patterns."""
    message_bytes: int = 256 * 1024
    authenticate_within_seconds: float = 15.0
    ping_interval_seconds: float = 25.0
    pong_timeout_seconds: float = 10.0
    stream_heartbeat_seconds: float = 25.0
    restore_seconds: float = 120.0
    token_seconds: float = 3600.0
    settings_reread_seconds: float = 60.0
    notifications: int = 1000
    """Per channel."""
    notification_seconds: float = 90 * 24 * 3600.0
    notification_bytes: int = 256 * 1024
    retention_seconds: float = 30.0
    lag_seconds: float = 15.0
    lag_series: int = 0
    session_calls: int = 32
    hub_calls: int = 1000
    call_seconds: float = 30.0
    document_memory_bytes: int = 32 * 1024 * 1024
    """Documents in memory, as JSON. Beyond it, channels with unused documents are unloaded."""
    subject_root: str = "hubbub"
    """The prefix of all NATS subjects that belong to hubs."""
    rooms: tuple[msgspec.Struct, ...] = ()
    """The settings of rooms (`hubbub.engine.<room>.settings`)."""

    def of(self, kind: type[S]) -> S:
        """A room's settings, or its defaults."""
        return next((each for each in self.rooms if isinstance(each, kind)), None) or kind()
