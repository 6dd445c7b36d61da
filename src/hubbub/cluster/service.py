"""What a node does for the calls of others, and for its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from hubbub.cluster import datagrams
from hubbub.cluster.datagrams import Call, Follow, Followed
from hubbub.domain.errors import HubbubError, Unavailable
from hubbub.engine.channels.owner import ChannelOwner
from hubbub.ports.bus import CommandReceiver, FeedSink

QUESTIONS = (
    datagrams.Attach
    | datagrams.Follow
    | datagrams.AskMembers
    | datagrams.AskOccupancy
    | datagrams.AskHistory
    | datagrams.AskThreads
    | datagrams.AskDocument
    | datagrams.AskTopic
    | datagrams.AskNotifications
    | datagrams.WatchPatterns
    | datagrams.AskWatches
    | datagrams.RouteCommand
    | datagrams.RouteMessage
    | datagrams.Question
    | datagrams.HubChanged
    | datagrams.UserFollows
    | datagrams.UserErased
)
"""Calls whose answer takes a while."""


RereadHub = Callable[[str, str | None], Awaitable[None]]
"""Brings the settings of a hub into this node's snapshot, or only what the owner of one channel
decided about it."""


class Service:
    """The owner and the sessions of one node, behind calls."""

    def __init__(
        self,
        owner: ChannelOwner,
        sink: FeedSink,
        reread_hub: RereadHub,
        commands: CommandReceiver | None = None,
    ) -> None:
        self.owner = owner
        self._commands = commands
        self.sink = sink
        self._reread_hub = reread_hub
        self.answer: Callable[[bytes], Awaitable[bytes]] = _know_nothing

    def do(self, node: str, call: Call) -> None:
        """For a call that nobody has to wait for."""
        owner = self.owner
        if isinstance(call, datagrams.Tell):
            self.sink.receive(call.hub, call.channel, call.event)
        elif isinstance(call, datagrams.Renew):
            self.sink.owners_changed(call.partitions)
        elif isinstance(call, datagrams.SessionTaken):
            self.sink.session_replaced(call.hub, call.session_id, call.kept)
        elif isinstance(call, datagrams.ReturnResult):
            if self._commands is not None:
                self._commands.result_routed(call.routed)
        elif isinstance(call, datagrams.Detach):
            owner.detach(node, call.hub, call.channel)
        elif isinstance(call, datagrams.Join):
            owner.join(node, call.hub, call.channel, call.members)
        elif isinstance(call, datagrams.Leave):
            owner.leave(node, call.hub, call.channel, call.session_ids)
        elif isinstance(call, datagrams.Occupy):
            owner.occupy(node, call.hub, call.channel, call.count)

    async def find_out(self, node: str, call: Call) -> object:
        """The answer to a question."""
        owner = self.owner
        if isinstance(call, datagrams.Attach):
            return await owner.attach(node, call.hub, call.channel)
        if isinstance(call, Follow):
            return await self._follow(node, call)
        if isinstance(call, datagrams.AskMembers):
            return await owner.members(call.hub, call.channel)
        if isinstance(call, datagrams.AskOccupancy):
            return await owner.occupancy(call.hub, call.channel)
        if isinstance(call, datagrams.AskHistory):
            return await owner.history(call.query)
        if isinstance(call, datagrams.AskThreads):
            return await owner.threads(call.query)
        if isinstance(call, datagrams.AskDocument):
            return await owner.document(call.query)
        if isinstance(call, datagrams.AskTopic):
            return await owner.topic(call.request)
        if isinstance(call, datagrams.AskNotifications):
            return await owner.notification(call.request)
        if isinstance(call, datagrams.WatchPatterns):
            return await owner.watch(node, call.watch)
        if isinstance(call, datagrams.AskWatches):
            return tuple(self.sink.watches())
        if isinstance(call, datagrams.RouteCommand | datagrams.RouteMessage):
            return self._route(node, call)
        if isinstance(call, datagrams.Question):
            return await self.answer(call.question)
        if isinstance(call, datagrams.HubChanged):
            await self._reread_hub(call.hub, call.channel)
            self.changed(call.hub, call.channel)
        if isinstance(call, datagrams.UserFollows):
            await self.sink.user_follows(call.hub, call.user_id, call.channel, call.follows)
        if isinstance(call, datagrams.UserErased):
            owner.push.erased(call.hub, call.user_id)
        return None

    def _route(self, node: str, call: datagrams.RouteCommand | datagrams.RouteMessage) -> int:
        """Answers how many sessions were handed the command."""
        if self._commands is None:
            return 0
        if isinstance(call, datagrams.RouteCommand):
            return self._commands.command_routed(node, call.routed)
        self._commands.message_routed(call.routed)
        return 0

    def changed(self, hub: str, channel: str | None) -> None:
        """The settings of a hub changed, or only what the owner of a channel decided about it."""
        for one in (self.owner, self.sink):
            if channel is None:
                one.hub_changed(hub)
            else:
                one.channel_changed(hub, channel)

    async def _follow(self, node: str, call: Follow) -> Followed:
        answers = await self.owner.follow(node, call.followings)
        return Followed(
            tuple(None if isinstance(each, HubbubError) else each for each in answers),
            tuple(each if isinstance(each, HubbubError) else None for each in answers),
        )


async def _know_nothing(question: bytes) -> bytes:
    raise Unavailable("this node is starting")
