"""Settings of tracing."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from hubbub.domain.secret import Secret


class Tracing(msgspec.Struct, frozen=True, kw_only=True):
    """Traces of messages for OpenTelemetry; needs the extra `hubbub[tracing]`."""

    endpoint: str | None = None
    """URL to which spans are sent in OTLP over HTTP, such as `http://127.0.0.1:4318/v1/traces`;
    without it nothing is traced."""
    header: Secret | None = None
    """A header for the receiver of spans, such as `Authorization: Bearer …`."""
    service_name: Annotated[str, Meta(min_length=1, max_length=255)] = "hubbub"
    """`service.name` of all spans; the node's name is `service.instance.id`."""
    sample_ratio: Annotated[float, Meta(ge=0, le=1)] = 0.01
    """Share of messages that are traced if their publisher sent no `traceparent`. A message with
    `traceparent` is traced if its flag says so."""
    max_per_second: Annotated[int, Meta(ge=0, le=1_000_000)] = 100
    """Traced messages of a hub per second on a node, even if publishers request more; 0 means no
    limit."""
    queue_size: Annotated[int, Meta(ge=16, le=1_000_000)] = 4096
    """Spans that wait to be sent; further spans are dropped."""
    export_interval: Annotated[float, Meta(ge=0.01, le=300)] = 5.0
    """Interval at which spans are sent."""
    export_timeout: Annotated[float, Meta(ge=0.1, le=30)] = 5.0
    """Timeout of sending a batch of spans."""
