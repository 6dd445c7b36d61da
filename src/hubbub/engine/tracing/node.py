"""A node that records a span for each traced message that it forwards."""

from __future__ import annotations

from hubbub.domain.asking import FeedEvent
from hubbub.domain.messages import Message
from hubbub.engine.node import Node
from hubbub.engine.tracing.fanout import TracedFanout
from hubbub.ports.bus import MessagePublished


class TracedNode(Node):
    fanout: TracedFanout

    def receive_message(self, hub: str, channel: str, message: Message, epoch: str) -> None:
        self.receive(hub, channel, MessagePublished(message, epoch))

    def receive(self, hub: str, channel: str, event: FeedEvent) -> None:
        self.fanout.follow(super().receive, hub, channel, event)
