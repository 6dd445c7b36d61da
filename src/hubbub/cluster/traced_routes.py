"""The way of a call to the owner of its channel; where tracing is on, with a span for each traced
publish that another node owns."""

from __future__ import annotations

from typing import Any

import msgspec

from hubbub.cluster.datagrams import Call, Publish
from hubbub.cluster.lanes import Conclude
from hubbub.cluster.routes import Routes
from hubbub.cluster.sending import Requests
from hubbub.cluster.transport import Owners
from hubbub.domain.errors import HubbubError
from hubbub.domain.traces import context_of, with_context
from hubbub.engine.tracing.facts import MESSAGE_ID, place
from hubbub.ports.spans import Span, Spans


def make_routes(
    node: str,
    owners: Owners,
    requests: Requests,
    deadline_seconds: float,
    spans: Spans | None,
) -> Routes:
    """Without `spans` nothing is traced."""
    if spans is None:
        return Routes(node, owners, requests, deadline_seconds)
    return TracedRoutes(spans, node, owners, requests, deadline_seconds)


class TracedRoutes(Routes):
    """The owner's spans are below the one that is begun here."""

    def __init__(
        self,
        spans: Spans,
        node: str,
        owners: Owners,
        requests: Requests,
        deadline_seconds: float,
    ) -> None:
        super().__init__(node, owners, requests, deadline_seconds)
        self._spans = spans

    def send(self, partition: int, call: Call, kind: Any, conclude: Conclude) -> None:
        span = self._begin(partition, call) if isinstance(call, Publish) else None
        if span is None or not isinstance(call, Publish):
            super().send(partition, call, kind, conclude)
            return
        message = msgspec.structs.replace(
            call.message, attributes=with_context(call.message.attributes, span.context)
        )

        def concluded(value: Any, error: HubbubError | None) -> None:
            span.end(None if error is None else error.code)
            conclude(value, error)

        super().send(partition, Publish(message, call.awaited), kind, concluded)

    def _begin(self, partition: int, call: Publish) -> Span | None:
        message = call.message
        context = context_of(message)
        if context is None:
            return None
        facts = place("forward", message.hub, message.channel)
        facts |= {MESSAGE_ID: message.id, "hubbub.owner": self._owners.owner_of(partition)}
        return self._spans.begin("forward", "client", context, facts)
