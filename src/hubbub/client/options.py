"""Options of a connection."""

from __future__ import annotations

import ssl
from typing import Literal

import msgspec


class Options(msgspec.Struct, frozen=True, kw_only=True):
    encoding: Literal["protobuf", "json"] = "protobuf"
    """Protobuf is somewhat faster and carries bytes as they are; JSON is easier to watch."""
    start_offline: bool = False
    """Go on trying if the first attempt finds nobody, instead of raising `Unreachable`."""
    restore: bool = True
    """Come back as the same session after a lost connection, where the hub allows it."""
    max_queued: int = 10_000
    """Publishes that may wait to be sent; one more raises `QueueFull`."""
    subscription_queue: int = 10_000
    """Messages that may wait for the application, for each subscription."""
    slow_seconds: float = 1.0
    """For how long a full queue holds back the whole connection, before its subscription is left
    to catch up from history."""
    connect_timeout: float = 10.0
    """Seconds for one attempt to connect: the token, the handshakes, and who this is."""
    request_timeout: float = 10.0
    heartbeat_interval: float | None = None
    """Seconds of silence after which the hub is asked for a sign of life; None: as it tells."""
    heartbeat_timeout: float = 10.0
    backoff_first: float = 0.25
    backoff_longest: float = 20.0
    stable_seconds: float = 5.0
    """A connection that lasted so long was a good one: after it, the first attempt is at once."""
    tls: ssl.SSLContext | None = None
    """For `wss://` and `https://`; None trusts the authorities of the system or of the file that
    the environment variable `SSL_CERT_FILE` names."""
