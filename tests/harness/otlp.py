"""A receiver of traces on loopback: takes OTLP over HTTP, and shows the spans that came."""

from __future__ import annotations

from typing import Any

import msgspec
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from harness.receivers import Receiver

TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = f"00-{TRACE}-b7ad6b7169203331-01"
"""The context of a publisher that wants to be traced."""


class SeenSpan(msgspec.Struct, frozen=True):
    name: str
    trace: str
    id: str
    parent: str
    node: str
    service: str
    facts: dict[str, Any]
    failed: bool
    nanoseconds: int

    @property
    def context(self) -> str:
        return f"00-{self.trace}-{self.id}-01"


class Collector(Receiver):
    """Use it with `async with`; `keys` are the settings of a hub that sends its spans here."""

    @property
    def keys(self) -> dict[str, object]:
        return {
            "tracing__endpoint": f"{self.url}/v1/traces",
            "tracing__exportInterval": 0.02,
            "tracing__sampleRatio": 0,
        }

    @property
    def spans(self) -> list[SeenSpan]:
        return [span for request in self.received for span in _read(request.body)]

    def named(self, name: str) -> list[SeenSpan]:
        return [span for span in self.spans if span.name == name]

    async def one(self, name: str) -> SeenSpan:
        """Wait for the span of this name, which must be the only one."""
        await self.until(lambda: self.named(name))
        (found,) = self.named(name)
        return found


def _read(body: bytes) -> list[SeenSpan]:
    request = ExportTraceServiceRequest.FromString(body)
    return [
        SeenSpan(
            span.name,
            span.trace_id.hex(),
            span.span_id.hex(),
            span.parent_span_id.hex(),
            resource["service.instance.id"],
            resource["service.name"],
            _values(span.attributes),
            span.status.code == span.status.STATUS_CODE_ERROR,
            span.end_time_unix_nano - span.start_time_unix_nano,
        )
        for part in request.resource_spans
        for resource in [_values(part.resource.attributes)]
        for scope in part.scope_spans
        for span in scope.spans
    ]


def _values(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}
