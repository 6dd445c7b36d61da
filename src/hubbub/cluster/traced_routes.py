"""Routes calls to the owners of their channels; with tracing, records a span for each traced
publish that another node owns."""

from __future__ import annotations

from typing import Any

from hubbub.cluster.datagrams import Call, PublishCall
from hubbub.cluster.lanes import Conclude
from hubbub.cluster.routes import OwnerRoutes
from hubbub.cluster.sending import Requests
from hubbub.cluster.service import Service
from hubbub.cluster.transport import Owners
from hubbub.domain.asking import envelope_of
from hubbub.domain.errors import HubbubError
from hubbub.domain.traces import context_of, traced
from hubbub.engine.tracing.facts import MESSAGE_ID, place
from hubbub.ports.spans import Span, Spans


def make_routes(
    node: str,
    owners: Owners,
    requests: Requests,
    service: Service,
    deadline_seconds: float,
    spans: Spans | None,
) -> OwnerRoutes:
    """Without `spans` nothing is traced."""
    if spans is None:
        return OwnerRoutes(node, owners, requests, service, deadline_seconds)
    return TracedRoutes(spans, node, owners, requests, service, deadline_seconds)


class TracedRoutes(OwnerRoutes):
    """The owner's spans become children of the span that is started here."""

    def __init__(
        self,
        spans: Spans,
        node: str,
        owners: Owners,
        requests: Requests,
        service: Service,
        deadline_seconds: float,
    ) -> None:
        super().__init__(node, owners, requests, service, deadline_seconds)
        self._spans = spans

    def send(self, partition: int, call: Call, kind: Any, conclude: Conclude) -> None:
        span = self._begin(partition, call) if isinstance(call, PublishCall) else None
        if span is None or not isinstance(call, PublishCall):
            super().send(partition, call, kind, conclude)
            return
        sent = traced(call.message, span.context)

        def concluded(value: Any, error: HubbubError | None) -> None:
            span.end(None if error is None else error.code)
            conclude(value, error)

        super().send(partition, PublishCall(sent, call.awaited), kind, concluded)

    def _begin(self, partition: int, call: PublishCall[Any]) -> Span | None:
        context = context_of(call.message)
        if context is None:
            return None
        message = envelope_of(call.message)
        facts = place("forward", message.hub, message.channel)
        facts |= {MESSAGE_ID: message.id, "hubbub.owner": self._owners.owner_of(partition)}
        return self._spans.begin("forward", "client", context, facts)
