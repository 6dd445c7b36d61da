"""The bus of a single node: every request is a direct call to the owner in this process."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from hubbub.domain.asking import Announcement, FeedEvent, NodeRequest, OwnerRequest, Sent
from hubbub.domain.errors import HubbubError
from hubbub.engine.channels.owner import ChannelOwner
from hubbub.engine.rooms import NodeRequests
from hubbub.ports.bus import (
    Answers,
    Attachment,
    FeedSink,
    FollowedState,
    Lane,
    PublishReply,
    Statement,
)
from hubbub.tasks import TaskSet

_A = TypeVar("_A")

NODE = "local"


class LocalBus:
    """Connects one node with one owner. `connect` is called after both exist."""

    alone = True

    def __init__(self) -> None:
        self._owner: ChannelOwner
        self._sink: FeedSink
        self.sink: FeedSink | None
        self.lane: Callable[[str, str], Lane | None]
        self._requests: NodeRequests
        self._tasks = TaskSet()

    def connect(
        self,
        owner: ChannelOwner,
        sink: FeedSink,
        requests: NodeRequests,
        events: Iterable[type[FeedEvent]] = (),
    ) -> None:
        """See `RemoteBus.connect`; events need no encoding here."""
        self._owner = owner
        self.lane = owner.lane
        self._sink = self.sink = sink
        self._requests = requests

    def emit(self, nodes: Sequence[str], hub: str, channel: str, event: FeedEvent) -> None:
        """Sends an event from the owner to the node."""
        self._sink.receive(hub, channel, event)

    def fenced(self, partition: int) -> None:
        """Does nothing: there is no other node."""

    def publish(self, sent: Sent, reply: PublishReply | None) -> None:
        self._owner.publish(sent, reply)

    def ask(self, request: OwnerRequest[_A], /) -> Coroutine[Any, Any, _A]:
        return self._owner.ask(NODE, request)

    def tell(self, statement: Statement) -> None:
        self._owner.tell(NODE, statement)

    async def follow(self, followings: Sequence[FollowedState]) -> list[Attachment | HubbubError]:
        return await self._owner.follow(NODE, followings)

    async def ask_all(self, request: NodeRequest[_A], /) -> Answers[_A]:
        return Answers({NODE: await self._requests.answer(NODE, request)}, {})

    async def broadcast(self, announcement: Announcement, /) -> None:
        await self._requests.answer(NODE, announcement)

    def send(self, request: NodeRequest[None], to: str | None = None) -> None:
        if to == NODE:
            self._tasks.start(self._requests.answer(NODE, request))
