"""Appends to the store with a span for each traced message of a batch."""

from __future__ import annotations

from collections.abc import Sequence

from hubbub.domain.errors import HubbubError
from hubbub.domain.traces import context_of
from hubbub.engine.tracing.facts import MESSAGE_ID, SERIAL, place
from hubbub.ports.spans import Span, Spans
from hubbub.ports.storage.messages import Append, AppendAll


def traced_append(spans: Spans, append: AppendAll) -> AppendAll:
    """`MessageStore.append`, with spans from the call until the batch is on disk."""

    async def traced(appends: Sequence[Append]) -> list[Exception | None]:
        begun = _begin(spans, appends)
        try:
            results = await append(appends)
        except HubbubError as error:
            for span in begun.values():
                span.end(error.code)
            raise
        for at, span in begun.items():
            result = results[at]
            span.end(result.code if isinstance(result, HubbubError) else None)
        return results

    return traced


def _begin(spans: Spans, appends: Sequence[Append]) -> dict[int, Span]:
    begun: dict[int, Span] = {}
    for at, append in enumerate(appends):
        message = append.message
        context = context_of(message)
        if context is None:
            continue
        facts = place("append", message.hub, message.channel)
        facts |= {MESSAGE_ID: message.id, SERIAL: message.serial, "hubbub.group": len(appends)}
        span = spans.begin("append", "client", context, facts)
        if span is not None:
            begun[at] = span
    return begun
