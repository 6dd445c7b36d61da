"""Transmits webhook requests; if tracing is enabled, with a span per attempt."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

import msgspec

from hubbub.domain.callbacks import Reach
from hubbub.domain.messages import Message
from hubbub.domain.traces import HEADER, context_of
from hubbub.engine.outward.gate import OutgoingGate
from hubbub.engine.tracing.facts import MESSAGE_ID, SERIAL, place
from hubbub.ports.outgoing import HttpRequest, HttpResponse, SendFailed
from hubbub.ports.spans import Spans

Transmit = Callable[[HttpRequest, Reach, Message], Awaitable[HttpResponse]]
"""Raises the errors of `OutgoingGate.transmit`."""


def make_transmit(outgoing: OutgoingGate, spans: Spans | None) -> Transmit:
    if spans is None:
        return lambda request, reach, message: outgoing.transmit(request, reach)

    async def transmit(request: HttpRequest, reach: Reach, message: Message) -> HttpResponse:
        """Passes the span to the receiver as the parent."""
        context = context_of(message)
        if context is None:
            return await outgoing.transmit(request, reach)
        facts = place("send", message.hub, message.channel)
        facts |= {MESSAGE_ID: message.id, SERIAL: message.serial}
        facts |= {"http.request.method": request.method, "server.address": _host_of(request.url)}
        span = spans.begin("webhook", "client", context, facts)
        header = (HEADER, context if span is None else span.context)
        request = msgspec.structs.replace(request, headers=(*request.headers, header))
        if span is None:
            return await outgoing.transmit(request, reach)
        error: str | None = "cancelled"
        try:
            answer = await outgoing.transmit(request, reach)
            span.note({"http.response.status_code": answer.status})
            error = None if answer.status < 400 else str(answer.status)
        except SendFailed as failed:
            error = failed.word
            raise
        finally:
            span.end(error)
        return answer

    return transmit


def _host_of(url: str) -> str:
    return urlsplit(url).hostname or ""
