"""The bus of a node that is alone: every request is a direct call to the owner in this process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from hubbub.domain.commands.routed import RoutedCommand, RoutedMessage, RoutedResult
from hubbub.domain.documents.changes import DocumentAnswer, DocumentQuery
from hubbub.domain.errors import HubbubError
from hubbub.domain.history import HistoryQuery
from hubbub.domain.messages import Message
from hubbub.domain.notices import HistoryPage, Member
from hubbub.domain.notifications import NotificationAnswer, NotificationRequest
from hubbub.domain.threads import ThreadsFound, ThreadsQuery
from hubbub.domain.topics import TopicAnswer, TopicRequest
from hubbub.engine.channels.owner import ChannelOwner
from hubbub.ports.bus import (
    Attachment,
    CommandReceiver,
    FeedEvent,
    FeedSink,
    Following,
    Matches,
    PublishReply,
    Replies,
    Watch,
)

NODE = "local"


class LocalBus:
    """Connects one node with one owner. `connect` closes the circle after both exist."""

    alone = True

    def __init__(self) -> None:
        self._owner: ChannelOwner
        self._sink: FeedSink

    def connect(self, owner: ChannelOwner, sink: FeedSink) -> None:
        self._owner = owner
        self._sink = sink
        # Saves a call per request.
        self.publish = owner.publish  # type: ignore[method-assign]
        self.topic = owner.topic  # type: ignore[method-assign]

    def emit(self, nodes: Sequence[str], hub: str, channel: str, event: FeedEvent) -> None:
        """The owner's way to the nodes."""
        self._sink.receive(hub, channel, event)

    def publish(self, message: Message, reply: PublishReply | None) -> None:
        self._owner.publish(message, reply)

    async def attach(self, hub: str, channel: str) -> Attachment:
        return await self._owner.attach(NODE, hub, channel)

    async def follow(self, followings: Sequence[Following]) -> list[Attachment | HubbubError]:
        return await self._owner.follow(NODE, followings)

    def detach(self, hub: str, channel: str) -> None:
        self._owner.detach(NODE, hub, channel)

    async def watch(self, watch: Watch) -> Matches:
        return await self._owner.watch(NODE, watch)

    def join(self, hub: str, channel: str, members: Sequence[Member]) -> None:
        self._owner.join(NODE, hub, channel, members)

    def leave(self, hub: str, channel: str, session_ids: Sequence[str]) -> None:
        self._owner.leave(NODE, hub, channel, session_ids)

    def occupy(self, hub: str, channel: str, count: int) -> None:
        self._owner.occupy(NODE, hub, channel, count)

    async def members(self, hub: str, channel: str) -> tuple[Member, ...]:
        return await self._owner.members(hub, channel)

    async def occupancy(self, hub: str, channel: str) -> int:
        return await self._owner.occupancy(hub, channel)

    async def history(self, query: HistoryQuery) -> HistoryPage:
        return await self._owner.history(query)

    async def threads(self, query: ThreadsQuery) -> ThreadsFound:
        return await self._owner.threads(query)

    async def document(self, query: DocumentQuery) -> DocumentAnswer:
        return await self._owner.document(query)

    async def topic(self, request: TopicRequest) -> TopicAnswer:
        return await self._owner.topic(request)

    async def notification(self, request: NotificationRequest) -> NotificationAnswer:
        return await self._owner.notification(request)

    def announce_session(self, hub: str, session_id: str, kept: Sequence[str]) -> None:
        """There is nobody to tell."""

    async def ask_others(self, question: bytes) -> Replies:
        return Replies()

    def answer_with(self, answer: Callable[[bytes], Awaitable[bytes]]) -> None:
        """There is nobody who asks."""

    def receive_commands(self, receiver: CommandReceiver) -> None:
        """There is no other node."""

    async def route_command(self, routed: RoutedCommand) -> int:
        return 0

    def return_result(self, node: str, routed: RoutedResult) -> None:
        """There is no other node."""

    async def route_message(self, routed: RoutedMessage) -> None:
        """There is no other node."""

    async def announce_hub_change(self, hub: str) -> None:
        self._owner.hub_changed(hub)
        self._sink.hub_changed(hub)

    async def announce_channel_change(self, hub: str, channel: str) -> None:
        self._owner.channel_changed(hub, channel)
        self._sink.channel_changed(hub, channel)

    async def announce_user(self, hub: str, user_id: str, channel: str, follows: bool) -> None:
        await self._sink.user_follows(hub, user_id, channel, follows)

    async def announce_erasure(self, hub: str, user_id: str) -> None:
        self._owner.push.erased(hub, user_id)
