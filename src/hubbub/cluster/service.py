"""Executes calls of other nodes, and this node's own."""

from __future__ import annotations

from typing import Any

from hubbub.cluster import datagrams
from hubbub.cluster.datagrams import Call, Follow, Followed, Question
from hubbub.domain.asking import NodeRequest, OwnerRequest
from hubbub.domain.errors import HubbubError, Malformed
from hubbub.engine.channels.owner import ChannelOwner
from hubbub.engine.rooms import NodeRequests
from hubbub.ports.bus import FeedSink, Statement

QUESTIONS = (OwnerRequest, Follow, NodeRequest, Question)
"""Calls whose response takes a while."""


class Service:
    """Dispatches calls to the owner, the sessions and the rooms of one node."""

    owner: ChannelOwner
    sink: FeedSink
    requests: NodeRequests

    def connect(self, owner: ChannelOwner, sink: FeedSink, requests: NodeRequests) -> None:
        """Called once, before the first call."""
        self.owner = owner
        self.sink = sink
        self.requests = requests

    def do(self, node: str, call: Call) -> None:
        """Executes a call that completes immediately."""
        if isinstance(call, datagrams.Tell):
            self.sink.receive(call.hub, call.channel, call.event)
        elif isinstance(call, datagrams.Renew):
            self.sink.owners_changed(call.partitions)
        elif isinstance(call, Statement):
            self.owner.tell(node, call)

    async def find_out(self, node: str, call: Call) -> Any:
        """Executes a node's request and returns the response."""
        if isinstance(call, OwnerRequest):
            return await self.owner.ask(node, call)
        if isinstance(call, NodeRequest):
            return await self.requests.answer(node, call)
        if isinstance(call, Follow):
            return await self._follow(node, call)
        raise Malformed("the request is one of another version, which this node does not know")

    async def _follow(self, node: str, call: Follow) -> Followed:
        answers = await self.owner.follow(node, call.followings)
        return Followed(
            tuple(None if isinstance(each, HubbubError) else each for each in answers),
            tuple(each if isinstance(each, HubbubError) else None for each in answers),
        )
