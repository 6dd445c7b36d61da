"""Options of a connection."""

from __future__ import annotations

import ssl
from typing import Literal

import msgspec


class Options(msgspec.Struct, frozen=True, kw_only=True):
    encoding: Literal["protobuf", "json"] = "protobuf"
    """Protobuf is somewhat faster and carries raw bytes; JSON is easier to debug."""
    start_offline: bool = False
    """Keep trying if the first attempt fails, instead of raising `Unreachable`."""
    restore: bool = True
    """Restore the session after a lost connection, if the hub allows it."""
    max_queued: int = 10_000
    """The most queued publishes; one more raises `QueueFull`."""
    subscription_queue: int = 10_000
    """The most messages queued for the application, per subscription."""
    slow_seconds: float = 1.0
    """How long a full queue pauses the whole connection, before its subscription must catch up from
    history."""
    connect_timeout: float = 10.0
    """Timeout of one attempt to connect, including token, handshakes and authentication."""
    request_timeout: float = 10.0
    heartbeat_interval: float | None = None
    """Seconds of silence after which a ping is sent; None: the hub's value."""
    heartbeat_timeout: float = 10.0
    backoff_first: float = 0.25
    backoff_longest: float = 20.0
    stable_seconds: float = 5.0
    """After a connection of at least this duration, the first reconnection attempt is immediate."""
    tls: ssl.SSLContext | None = None
    """For `wss://` and `https://`; None trusts the system's authorities, or those in the file named
    by the environment variable `SSL_CERT_FILE`."""
