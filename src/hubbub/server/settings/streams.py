"""Settings of streams."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

DAY = 86_400.0


class Streams(msgspec.Struct, frozen=True, kw_only=True):
    """Logs of events that clients submit."""

    target: Literal["auto", "jetstream", "journal"] = "auto"
    """Where events are stored; `auto` is JetStream if `broker.host` provides it, else the
    journal."""
    replicas: Annotated[int, Meta(ge=1, le=5)] = 1
    """Copies in JetStream. This key and the next two apply to a stream that the hub creates; an
    existing stream with its subjects is not changed."""
    max_age: Annotated[float, Meta(ge=0, le=3650 * DAY)] = 30 * DAY
    """Age at which events are deleted; 0 keeps them."""
    max_bytes: Annotated[int, Meta(ge=0, le=1 << 50)] = 10 << 30
    """Size beyond which the oldest events are deleted; 0 means no limit."""
    confirm_timeout: Annotated[float, Meta(ge=0.1, le=60)] = 5.0
    """Timeout of JetStream's confirmation of an event."""
