"""Publishing with a span from the arrival of a message to its outcome."""

from __future__ import annotations

import msgspec

from hubbub.domain.errors import HubbubError
from hubbub.domain.limits import KeyedBuckets
from hubbub.domain.permissions import Identity
from hubbub.domain.requests import PublishItem
from hubbub.domain.traces import context_given, with_context, without_context
from hubbub.engine.hub import Hub
from hubbub.engine.limits import EngineLimits
from hubbub.engine.publishing import Publisher, PublishHooks
from hubbub.engine.storing.hooks import StoringHooks
from hubbub.engine.topic_creation import TopicMaker
from hubbub.engine.tracing.facts import MESSAGE_ID, SERIAL, place
from hubbub.ports.bus import Bus, PublishOutcome, PublishReply
from hubbub.ports.clock import Clock
from hubbub.ports.spans import Span, Spans

_KNOWN_HUBS = 10_000


class TracedPublisher(Publisher):
    """Publishers may request a trace for each message (the flag `sampled` of its context), so a hub
    gets a limited number per second; further messages are not traced."""

    traced = True

    def __init__(
        self,
        spans: Spans,
        bus: Bus,
        clock: Clock,
        limits: EngineLimits,
        maker: TopicMaker,
        consents: PublishHooks,
        hooks: StoringHooks,
    ) -> None:
        super().__init__(bus, clock, limits, maker, consents, hooks)
        self._spans = spans
        rate = limits.traces_per_second
        self._shares = KeyedBuckets(rate, rate, _KNOWN_HUBS)

    def publish(
        self,
        hub: Hub,
        identity: Identity,
        item: PublishItem,
        reply: PublishReply | None,
        technology: str | None = None,
        session: str | None = None,
        permitted: bool = False,
        message_id: str | None = None,
    ) -> str:
        span = self._begin(hub, item, technology)
        if span is not None and self._shares.take(hub.name, 1, self._clock.monotonic()):
            item = msgspec.structs.replace(item, attributes=without_context(item.attributes))
            span = None
        if span is None:
            return super().publish(
                hub, identity, item, reply, technology, session, permitted, message_id
            )
        traced = with_context(item.attributes, span.context)
        item = msgspec.structs.replace(item, attributes=traced)
        publishing = _Publishing(span, reply) if reply is not None else None
        try:
            published = super().publish(
                hub, identity, item, publishing, technology, session, permitted, message_id
            )
        except HubbubError as error:
            span.end(error.code)
            raise
        span.note({MESSAGE_ID: published})
        if publishing is None:
            span.end()  # nobody waits for the outcome
        else:
            publishing.accepted()
        return published

    def _begin(self, hub: Hub, item: PublishItem, technology: str | None) -> Span | None:
        facts = place("publish", hub.name, item.channel)
        facts["messaging.message.body.size"] = len(item.payload)
        if technology is not None:
            facts["hubbub.technology"] = technology
        return self._spans.begin("publish", "server", context_given(item.attributes), facts)


class _Publishing:
    """The reply to a publish. The span ends with the outcome, but not before the id was
    recorded."""

    __slots__ = ("_accepted", "_outcome", "_reply", "_span")

    def __init__(self, span: Span, reply: PublishReply) -> None:
        self._span = span
        self._reply = reply
        self._accepted = False
        self._outcome: PublishOutcome | None = None

    def __call__(self, outcome: PublishOutcome) -> None:
        self._outcome = outcome
        if self._accepted:
            self._end(outcome)
        self._reply(outcome)

    def accepted(self) -> None:
        self._accepted = True
        if self._outcome is not None:
            self._end(self._outcome)

    def _end(self, outcome: PublishOutcome) -> None:
        if outcome.serial:
            self._span.note({SERIAL: outcome.serial})
        self._span.end(None if outcome.error is None else outcome.error.code)
