"""Spans over OTLP/HTTP: OpenTelemetry's SDK samples, batches and sends them, in a thread of its
own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import msgspec
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)
from opentelemetry.trace import Span as OtelSpan

from hubbub.ports import spans as port

logger = logging.getLogger(__name__)

BATCH_SPANS = 512
CLOSING_SECONDS = 1.0
"""Time limit for sending queued spans when the hub ends; the others are dropped."""
_KINDS = {"server": SpanKind.SERVER, "client": SpanKind.CLIENT, "internal": SpanKind.INTERNAL}


class OtlpOptions(msgspec.Struct, frozen=True, kw_only=True):
    endpoint: str
    header: str | None
    """`Name: value`, for every request."""
    service_name: str
    service_version: str
    node: str
    sample_ratio: float
    queue_size: int
    export_seconds: float
    timeout_seconds: float


class OtlpSpans:
    """Implements `ports.spans.Spans`. Never waits for the receiver: spans are dropped when the
    queue is full."""

    def __init__(self, options: OtlpOptions) -> None:
        name, _, value = (options.header or "").partition(":")
        self._exporter = OTLPSpanExporter(
            endpoint=options.endpoint,
            headers={name.strip(): value.strip()} if name else {},
            timeout=options.timeout_seconds,
        )
        self._troubles = _Troubles(options.endpoint)
        self._processor = BatchSpanProcessor(
            _WatchedReceiver(self._exporter, self._troubles),
            max_queue_size=options.queue_size,
            schedule_delay_millis=options.export_seconds * 1000,
            max_export_batch_size=min(BATCH_SPANS, options.queue_size),
        )
        provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(options.sample_ratio)),
            resource=Resource(
                {
                    "service.name": options.service_name,
                    "service.version": options.service_version,
                    "service.instance.id": options.node,
                }
            ),
            shutdown_on_exit=False,
        )
        provider.add_span_processor(self._processor)
        self._tracer = provider.get_tracer("hubbub", options.service_version)

    def begin(
        self, name: str, kind: port.SpanKind, parent: str | None, facts: port.Facts
    ) -> _Span | None:
        context = None if parent is None else set_span_in_context(_remote(parent))
        span = self._tracer.start_span(name, context, _KINDS[kind], facts)
        return _Span(span) if span.is_recording() else None

    async def close(self) -> None:
        """Sends queued spans, for at most `CLOSING_SECONDS`."""
        closing = asyncio.ensure_future(asyncio.to_thread(self._processor.shutdown))
        await asyncio.wait((closing,), timeout=CLOSING_SECONDS)
        if not closing.done():
            self._exporter.shutdown()  # ends the pauses between its attempts
        await closing
        self._troubles.close()


class _Span:
    """Implements `ports.spans.Span`."""

    __slots__ = ("_span", "context")

    def __init__(self, span: OtelSpan) -> None:
        self._span = span
        own = span.get_span_context()
        self.context = f"00-{own.trace_id:032x}-{own.span_id:016x}-{int(own.trace_flags):02x}"

    def note(self, facts: port.Facts) -> None:
        self._span.set_attributes(dict(facts))

    def end(self, error: str | None = None) -> None:
        if error is not None:
            self._span.set_attribute("error.type", error)
            self._span.set_status(Status(StatusCode.ERROR, error))
        self._span.end()


def _remote(parent: str) -> NonRecordingSpan:
    _, trace, span, flags = parent.split("-")
    sampled = TraceFlags(int(flags, 16) & TraceFlags.SAMPLED)
    return NonRecordingSpan(SpanContext(int(trace, 16), int(span, 16), True, sampled))


class _Troubles(logging.Handler):
    """Logs the first of several failed batches; the SDK would log each."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(logging.WARNING)
        self._endpoint = endpoint
        self._said = False
        sdk = logging.getLogger("opentelemetry")
        sdk.propagate = False
        sdk.addHandler(self)

    def close(self) -> None:
        logging.getLogger("opentelemetry").removeHandler(self)
        super().close()

    def emit(self, record: logging.LogRecord) -> None:
        if not self._said:
            self._said = True
            logger.warning(
                "traces cannot be exported to %s (%s); spans are dropped until it accepts them",
                self._endpoint,
                record.getMessage(),
            )

    def over(self) -> None:
        if self._said:
            self._said = False
            logger.info("traces are exported to %s again", self._endpoint)


class _WatchedReceiver(SpanExporter):
    """Detects when the receiver accepts spans again."""

    def __init__(self, exporter: SpanExporter, troubles: _Troubles) -> None:
        self._exporter = exporter
        self._troubles = troubles

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        if result is SpanExportResult.SUCCESS:
            self._troubles.over()
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()
