"""Spans: the trace of a message, reported to a tracing system.

A hub without tracing has no `Spans` and pays nothing for it: the instrumented objects are created
only if tracing is on (`server/wiring.py`). Contract of all methods: called from the event loop,
cheap, never waiting, never raising. Spans that the receiver cannot absorb are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

SpanKind = Literal["server", "client", "internal"]
"""`server`: handling of an external request. `client`: a request to another process. `internal`:
neither."""
Facts = Mapping[str, str | int]
"""Attributes of a span. They never contain a payload."""


class Span(Protocol):
    """An operation of a trace. A span that is never ended is not reported."""

    @property
    def context(self) -> str:
        """The context that child spans name as their parent (`domain.traces`)."""

    def note(self, facts: Facts) -> None:
        """Adds attributes; only before `end`."""

    def end(self, error: str | None = None) -> None:
        """Ends the span, once. `error`: an error code."""


class Spans(Protocol):
    def begin(self, name: str, kind: SpanKind, parent: str | None, facts: Facts) -> Span | None:
        """Begins a child of `parent`, or the root of a new trace. None if the trace is not
        sampled."""
