"""Fan-out with a span per traced message, from its arrival at this node until it was written to the
last subscriber."""

from __future__ import annotations

from collections.abc import Callable

from hubbub.domain.asking import FeedEvent
from hubbub.domain.messages import Message
from hubbub.domain.traces import context_of
from hubbub.engine.delivery.fanout import DeliveryQueue, Fanout, Group
from hubbub.engine.delivery.tally import Deliveries
from hubbub.engine.node import Node
from hubbub.engine.tracing.facts import MESSAGE_ID, SERIAL, place
from hubbub.ports.bus import MessagePublished
from hubbub.ports.clock import Clock
from hubbub.ports.connection import Transmitter
from hubbub.ports.spans import Span, Spans

MOST_FOLLOWED = 1000
"""Maximum number of groups whose writes are traced; beyond it, a span ends when its message is
queued."""

Receive = Callable[[str, str, FeedEvent], None]
"""`FeedSink.receive`."""


class TracedFanout(Fanout):
    def __init__(
        self,
        spans: Spans,
        transmit: Transmitter,
        clock: Clock,
        deliveries: Deliveries | None = None,
    ) -> None:
        super().__init__(transmit, clock, deliveries)
        self._spans = spans
        self._reached: dict[Group, None] | None = None
        """The groups that receive the current message; None if it is not traced."""
        self._followed: dict[Group, list[_TracedDelivery]] = {}

    def follow(self, receive: Receive, hub: str, channel: str, event: FeedEvent) -> None:
        """Wraps the reception of an event whose message this fan-out sends."""
        span = self._begin(event) if isinstance(event, MessagePublished) else None
        if span is None:
            receive(hub, channel, event)
            return
        reached = self._reached = {}
        try:
            receive(hub, channel, event)
        finally:
            self._reached = None
        if reached:  # else nobody here follows the channel, or all have had the message
            self._follow(span, reached)

    def begin(self, now: float) -> bool:
        """Nothing is written at once: spans end where groups are served in turn."""
        return False

    def send(self, group: Group, unit: bytes) -> None:
        if self._reached is not None:
            self._reached[group] = None
        super().send(group, unit)

    def schedule(self, group: Group) -> None:
        if self._reached is not None:
            self._reached[group] = None
        super().schedule(group)

    def _begin(self, event: MessagePublished) -> Span | None:
        message = event.message
        context = context_of(message)
        if context is None:
            return None
        facts = place("deliver", message.hub, message.channel)
        facts |= {MESSAGE_ID: message.id, SERIAL: message.serial}
        return self._spans.begin("deliver", "internal", context, facts)

    def _follow(self, span: Span, groups: dict[Group, None]) -> None:
        span.note({"hubbub.subscribers": sum(len(group.connections) for group in groups)})
        if len(self._followed) + len(groups) > MOST_FOLLOWED:
            span.end()
            return
        delivery = _TracedDelivery(span, len(groups))
        for group in groups:
            self._followed.setdefault(group, []).append(delivery)

    def _serve(self, delivery_queue: DeliveryQueue, budget: int) -> int:
        group = delivery_queue.groups[0]
        cost = super()._serve(delivery_queue, budget)
        if not group.queued:
            for delivery in self._followed.pop(group, ()):
                delivery.written()
        return cost


class _TracedDelivery:
    """A traced message on its way to some groups."""

    __slots__ = ("_left", "_span")

    def __init__(self, span: Span, groups: int) -> None:
        self._span = span
        self._left = groups

    def written(self) -> None:
        self._left -= 1
        if not self._left:
            self._span.end()


class TracedNode(Node):
    """A node that records a span for each traced message that it forwards."""

    fanout: TracedFanout

    def receive_message(self, hub: str, channel: str, message: Message, epoch: str) -> None:
        self.receive(hub, channel, MessagePublished(message, epoch))

    def receive(self, hub: str, channel: str, event: FeedEvent) -> None:
        self.fanout.follow(super().receive, hub, channel, event)
