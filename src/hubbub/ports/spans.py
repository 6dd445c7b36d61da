"""Spans: what the hub tells a tracing system about the way of a message.

A hub that does not trace has no `Spans`, and nothing of it is on the way of a message: who would
tell is built only where tracing is on (`server/wiring.py`). Contract for all methods: they are
called from the event loop, cost little, never wait and never raise. What the receiver cannot take
is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

SpanKind = Literal["server", "client", "internal"]
"""Whether a request from outside is handled, another process is asked, or neither."""
Facts = Mapping[str, str | int]
"""Attributes of a span. Never a payload."""


class Span(Protocol):
    """One part of the way, under way until it is ended. A span that is not ended is not told."""

    @property
    def context(self) -> str:
        """What happens within the span names it as its parent (`domain.traces`)."""

    def note(self, facts: Facts) -> None:
        """Before the end only."""

    def end(self, error: str | None = None) -> None:
        """Once. `error`: the code of what went wrong."""


class Spans(Protocol):
    def begin(self, name: str, kind: SpanKind, parent: str | None, facts: Facts) -> Span | None:
        """A span below `parent`, or the first one of a trace. None where the trace is not
        sampled."""
