"""The bus between nodes, over a transport that promises nothing.

Requests go to the owner of their channel, are sent again until they are answered
(`cluster.sending`), and are taken up once and in order (`cluster.receiving`, `cluster.lanes`). Who
has no answer in time gets `Unavailable`: then it is not known whether the request took effect,
only that it did not do so twice. Messages and heads on their way to subscribers are sent once,
since receivers find out what they miss; joins, leaves and counts are sent like requests, since
nobody would.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from hubbub.cluster import datagrams
from hubbub.cluster.datagrams import Call, Feed, Reply, Request
from hubbub.cluster.receiving import Receiver
from hubbub.cluster.sending import Patience, Requests
from hubbub.cluster.transport import Transport
from hubbub.domain.errors import HubbubError, Malformed
from hubbub.domain.history import HistoryQuery
from hubbub.domain.messages import Message
from hubbub.domain.names import partition_of
from hubbub.domain.notices import HistoryPage, Member
from hubbub.domain.topics import TopicAnswer, TopicRequest, answer_type, channel_of
from hubbub.engine.owner import ChannelOwner
from hubbub.ports.bus import (
    Attachment,
    FeedEvent,
    FeedSink,
    HeadAnnounced,
    Published,
    PublishOutcome,
    PublishReply,
)

__all__ = ["OwnerOf", "Patience", "RemoteBus"]

logger = logging.getLogger(__name__)

HUB_LANE = -1
"""The lane of what concerns a whole hub; all others are numbered like the partitions."""

OwnerOf = Callable[[str, str], str]
"""The node that owns a channel: (hub, channel)."""


class RemoteBus:
    """The bus of one node among many. `connect` closes the circle after both ends exist."""

    def __init__(
        self,
        node: str,
        transport: Transport,
        *,
        owner_of: OwnerOf,
        nodes: Callable[[], Sequence[str]],
        reread_hub: Callable[[str], Awaitable[None]],
        patience: Patience = Patience(),  # noqa: B008 - immutable
    ) -> None:
        """`nodes` are all members, this one included; `reread_hub` brings a hub's settings into
        this node's memory after another node changed them."""
        self.node = node
        self.incarnation = secrets.token_hex(8)
        self._transport = transport
        self._owner_of = owner_of
        self._nodes = nodes
        self._requests = Requests(node, self.incarnation, transport, patience)
        self._receiver = Receiver(
            node, self.incarnation, transport, owns=self._owns, reread_hub=reread_hub
        )
        self._events = 0
        self._closed = False
        self._owner: ChannelOwner
        self._sink: FeedSink

    def connect(self, owner: ChannelOwner, sink: FeedSink) -> None:
        self._owner = owner
        self._sink = sink
        self._receiver.connect(owner, sink)
        self._transport.listen(self._receive)

    async def close(self) -> None:
        """Answer whoever still waits, and end what is under way."""
        self._closed = True
        self._requests.close()
        await self._receiver.close()

    # -- what sessions call ---------------------------------------------------------------------

    def publish(self, message: Message, reply: PublishReply | None) -> None:
        owner = self._owner_of(message.hub, message.channel)
        if owner == self.node:
            self._owner.publish(message, reply)
            return

        def conclude(published: datagrams.Published | None, error: HubbubError | None) -> None:
            if reply is None:
                return
            if published is None:
                reply(PublishOutcome(error=error))
            else:
                p = published
                reply(PublishOutcome(p.serial, error, p.duplicate, p.message_id))

        lane = partition_of(message.hub, message.channel)
        call = datagrams.Publish(message, reply is not None)
        self._requests.send(owner, lane, call, datagrams.Published, conclude)

    async def attach(self, hub: str, channel: str) -> Attachment:
        if self._owns(hub, channel):
            return await self._owner.attach(self.node, hub, channel)
        answer: Attachment = await self._ask(
            hub, channel, datagrams.Attach(hub, channel), Attachment
        )
        return answer

    def detach(self, hub: str, channel: str) -> None:
        if self._owns(hub, channel):
            self._owner.detach(self.node, hub, channel)
        else:
            self._say(hub, channel, datagrams.Detach(hub, channel))

    def join(self, hub: str, channel: str, members: Sequence[Member]) -> None:
        if self._owns(hub, channel):
            self._owner.join(self.node, hub, channel, members)
        else:
            self._say(hub, channel, datagrams.Join(hub, channel, tuple(members)))

    def leave(self, hub: str, channel: str, session_ids: Sequence[str]) -> None:
        if self._owns(hub, channel):
            self._owner.leave(self.node, hub, channel, session_ids)
        else:
            self._say(hub, channel, datagrams.Leave(hub, channel, tuple(session_ids)))

    def occupy(self, hub: str, channel: str, count: int) -> None:
        if self._owns(hub, channel):
            self._owner.occupy(self.node, hub, channel, count)
        else:
            self._say(hub, channel, datagrams.Occupy(hub, channel, count))

    async def members(self, hub: str, channel: str) -> tuple[Member, ...]:
        if self._owns(hub, channel):
            return await self._owner.members(hub, channel)
        call = datagrams.AskMembers(hub, channel)
        answer: tuple[Member, ...] = await self._ask(hub, channel, call, tuple[Member, ...])
        return answer

    async def occupancy(self, hub: str, channel: str) -> int:
        if self._owns(hub, channel):
            return await self._owner.occupancy(hub, channel)
        answer: int = await self._ask(hub, channel, datagrams.AskOccupancy(hub, channel), int)
        return answer

    async def history(self, query: HistoryQuery) -> HistoryPage:
        if self._owns(query.hub, query.channel):
            return await self._owner.history(query)
        call = datagrams.AskHistory(query)
        answer: HistoryPage = await self._ask(query.hub, query.channel, call, HistoryPage)
        return answer

    async def topic(self, request: TopicRequest) -> TopicAnswer:
        hub, channel = channel_of(request)
        if self._owns(hub, channel):
            return await self._owner.topic(request)
        answer: TopicAnswer = await self._ask(
            hub, channel, datagrams.AskTopic(request), answer_type(request)
        )
        return answer

    async def announce_hub_change(self, hub: str) -> None:
        """A node that cannot be reached now rereads the settings by itself later."""
        self._owner.hub_changed(hub)
        self._sink.hub_changed(hub)
        others = [node for node in self._nodes() if node != self.node]
        call = datagrams.HubChanged(hub)
        answers = [self._requests.ask(node, HUB_LANE, call, None) for node in others]
        for node, answer in zip(
            others, await asyncio.gather(*answers, return_exceptions=True), strict=True
        ):
            if isinstance(answer, HubbubError):
                logger.warning("node %s does not know yet that %r changed: %s", node, hub, answer)
            elif isinstance(answer, BaseException):
                raise answer

    # -- what the owner calls -------------------------------------------------------------------

    def emit(self, nodes: Sequence[str], hub: str, channel: str, event: FeedEvent) -> None:
        """The owner's way to the nodes."""
        for node in nodes:
            if node == self.node:
                self._sink.receive(hub, channel, event)
        others = [node for node in nodes if node != self.node]
        if not others:
            return
        if isinstance(event, Published | HeadAnnounced):
            self._events += 1
            data = datagrams.encode(
                Feed(self.node, self.incarnation, self._events, hub, channel, event)
            )
            for node in others:
                self._transport.send(node, data)
        else:
            lane = partition_of(hub, channel)
            for node in others:
                self._requests.send(node, lane, datagrams.Tell(hub, channel, event), None, _ignore)

    # -- between the two ------------------------------------------------------------------------

    def _owns(self, hub: str, channel: str) -> bool:
        return self._owner_of(hub, channel) == self.node

    def _say(self, hub: str, channel: str, call: Call) -> None:
        """A request that nobody waits for."""
        owner = self._owner_of(hub, channel)
        self._requests.send(owner, partition_of(hub, channel), call, None, _ignore)

    async def _ask(self, hub: str, channel: str, call: Call, kind: Any) -> Any:
        owner = self._owner_of(hub, channel)
        return await self._requests.ask(owner, partition_of(hub, channel), call, kind)

    def _receive(self, data: bytes) -> None:
        if self._closed:
            return
        try:
            datagram = datagrams.decode(data)
        except Malformed as error:
            logger.warning("ignored: %s", error)
            return
        if isinstance(datagram, Feed):
            self._receiver.receive_event(datagram)
        elif isinstance(datagram, Request):
            self._receiver.receive_request(datagram)
        elif datagram.receiver == self.incarnation:
            if isinstance(datagram, Reply):
                self._requests.receive_reply(datagram)
            else:
                self._requests.meet(datagram)


def _ignore(value: Any, error: HubbubError | None) -> None:
    pass
