"""The keys of streams: where the events are kept that clients hand in."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

DAY = 86_400.0


class Streams(msgspec.Struct, frozen=True, kw_only=True):
    """Logs of events that clients hand in."""

    target: Literal["auto", "jetstream", "journal"] = "auto"
    """Where they are kept; `auto` is JetStream where `broker.host` has it, else the journal."""
    replicas: Annotated[int, Meta(ge=1, le=5)] = 1
    """Copies in JetStream. This key and the next two hold for the stream that the hub makes where
    none takes its subjects yet; one that is there stays as it is."""
    max_age: Annotated[float, Meta(ge=0, le=3650 * DAY)] = 30 * DAY
    """Age at which events go; 0 keeps them."""
    max_bytes: Annotated[int, Meta(ge=0, le=1 << 50)] = 10 << 30
    """Size at which the oldest go; 0 means no limit."""
    confirm_timeout: Annotated[float, Meta(ge=0.1, le=60)] = 5.0
    """Time for JetStream to confirm an event."""
