"""The bus between nodes, over an unreliable transport.

Requests go to the owner of their channel, are repeated until answered (`cluster.sending`), and are
processed once and in order (`cluster.receiving`, `cluster.lanes`). A request without a response in
time fails with `Unavailable`: it may have taken effect, but not twice. The other direction, to the
followers, is `cluster.emitting`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from hubbub.cluster import datagrams
from hubbub.cluster.datagrams import DatagramReader, FeedDatagram, Heads, LaneRequest, Reply
from hubbub.cluster.emitting import Emitter, ignore
from hubbub.cluster.receiving import RequestReceiver
from hubbub.cluster.sending import NodeLost, Patience, Requests
from hubbub.cluster.service import Service
from hubbub.cluster.traced_routes import make_routes
from hubbub.cluster.transport import Owners, Transport
from hubbub.domain.asking import (
    Announcement,
    FeedEvent,
    NodeLane,
    NodeRequest,
    OwnerRequest,
    Sent,
    answer_of,
)
from hubbub.domain.errors import HubbubError, Internal, Malformed
from hubbub.domain.names import partition_of
from hubbub.engine.channels.owner import ChannelOwner
from hubbub.engine.rooms import NodeRequests
from hubbub.ports import randomness
from hubbub.ports.bus import (
    Answers,
    Attachment,
    FeedSink,
    FollowedState,
    NoAnswer,
    PublishReply,
    Statement,
)
from hubbub.ports.spans import Spans
from hubbub.tasks import TaskSet

__all__ = ["Patience", "RemoteBus"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

QUESTION_SECONDS = 2.0


class RemoteBus:
    """The bus of one node among many. `connect` is called after both ends exist."""

    alone = False
    sink = None

    def __init__(
        self,
        node: str,
        transport: Transport,
        *,
        owners: Owners,
        nodes: Callable[[], Sequence[str]],
        patience: Patience = Patience(),  # noqa: B008 - immutable
        incarnation: str = "",
        spans: Spans | None = None,
    ) -> None:
        """`nodes` are all members, including this one."""
        self.node = node
        self.incarnation = incarnation or randomness.token_hex(8)
        self._transport = transport
        self._owners = owners
        self._nodes = nodes
        self.requests = Requests(node, self.incarnation, transport, patience)
        self._service = Service()
        self._receiver = RequestReceiver(node, self.incarnation, transport, owners, self._service)
        self._routes = make_routes(
            node, owners, self.requests, self._service, patience.deadline_seconds, spans
        )
        self._emitter = Emitter(
            node, self.incarnation, transport, self.requests, nodes, self._service
        )
        self._closed = False
        self.muted = False
        """True until it is known that no other node has this node's name: datagrams to that name
        would be meant for the other."""
        self._reader: DatagramReader
        self._tasks = TaskSet()

    def connect(
        self,
        owner: ChannelOwner,
        sink: FeedSink,
        requests: NodeRequests,
        events: Iterable[type[FeedEvent]] = (),
    ) -> None:
        """`events` are the feed events of the node's rooms."""
        self._service.connect(owner, sink, requests)
        self._reader = DatagramReader((*owner.kinds, *requests.kinds, *events))
        self._transport.listen(self._receive)

    def lane(self, hub: str, channel: str) -> None:
        """None: a channel may be about to move to another node."""

    async def close(self) -> None:
        """Answers waiting callers, and cancels requests in progress."""
        self._closed = self._emitter.closed = True
        self.requests.close()
        await self._routes.close()
        await self._receiver.close()
        await self._tasks.end()

    def owners_changed(self) -> None:
        """The ring changed, or this node has taken over its part."""
        self._receiver.owners_changed()
        self._routes.owners_changed()

    def ask_to_renew(
        self, partitions: Collection[int], nodes: Collection[str] | None = None
    ) -> None:
        """Requests from nodes, or from all, the channels of these partitions that they follow."""
        call = datagrams.Renew(tuple(partitions))
        for node in self._nodes() if nodes is None else nodes:
            if node == self.node:
                self._service.do(node, call)
            else:
                self.requests.send(node, NodeLane.HUB, call, None, ignore)

    # -- what the owner calls -------------------------------------------------------------------

    def emit(self, nodes: Sequence[str], hub: str, channel: str, event: FeedEvent) -> None:
        self._emitter.emit(nodes, hub, channel, event)

    def fenced(self, partition: int) -> None:
        self._owners.fenced(partition)

    # -- what sessions call ---------------------------------------------------------------------

    def publish(self, sent: Sent, reply: PublishReply | None) -> None:
        self._routes.publish(partition_of(sent.hub, sent.channel), sent, reply)

    async def ask(self, request: OwnerRequest[T], /) -> T:
        partition = partition_of(*request.place)
        answer: T = await self._routes.ask(partition, request, answer_of(type(request)))
        return answer

    def tell(self, statement: Statement) -> None:
        """If the statement is given up, the node sends the owner its whole state again."""
        partition = partition_of(*statement.place)
        if self._routes.is_direct(partition):
            self._service.do(self.node, statement)
            return

        def conclude(value: Any, error: HubbubError | None) -> None:
            if error is not None and not self._closed:
                self._service.sink.owners_changed((partition,))

        self._routes.send(partition, statement, None, conclude)

    async def follow(self, followings: Sequence[FollowedState]) -> list[Attachment | HubbubError]:
        """Sends one call per partition, so that it stays in order with joins and leaves."""
        parts: dict[int, list[int]] = {}
        for at, following in enumerate(followings):
            parts.setdefault(partition_of(following.hub, following.channel), []).append(at)
        answers: dict[int, Attachment | HubbubError] = {}
        complete: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def conclude(places: list[int], followed: Any, error: HubbubError | None) -> None:
            missing = error or Internal("an owner gave no answer")
            answers.update(dict.fromkeys(places, missing))
            if followed is not None:
                told = zip(places, followed.attachments, followed.errors, strict=False)
                answers.update({at: state or refusal or missing for at, state, refusal in told})
            if len(answers) == len(followings) and not complete.done():
                complete.set_result(None)

        for partition, places in parts.items():
            call = datagrams.Follow(tuple(followings[at] for at in places))
            self._routes.send(partition, call, datagrams.Followed, partial(conclude, places))
        if parts:
            await complete
        return [answers[at] for at in range(len(followings))]

    async def ask_all(self, request: NodeRequest[T], /) -> Answers[T]:
        return await self._ask_all(request, QUESTION_SECONDS)

    async def broadcast(self, announcement: Announcement, /) -> None:
        for node, unheard in (await self._ask_all(announcement, None)).missing.items():
            logger.warning(
                "node %s does not know yet that %r changed: %s",
                node,
                announcement.hub,
                unheard.error,
            )

    def send(self, request: NodeRequest[None], to: str | None = None) -> None:
        for node in self._others() if to is None else (to,):
            if node == self.node:
                self._tasks.start(self._service.requests.answer(node, request))
            else:
                kind = bytes if request.framed else None
                self.requests.send(node, request.lane, request, kind, ignore)

    async def _ask_all(self, request: NodeRequest[T], seconds: float | None) -> Answers[T]:
        given = {self.node: await self._service.requests.answer(self.node, request)}
        missing: dict[str, NoAnswer] = {}
        others = self._others()
        answers = await asyncio.gather(
            *(self._ask_node(node, request, seconds) for node in others), return_exceptions=True
        )
        for node, answer in zip(others, answers, strict=True):
            if isinstance(answer, HubbubError):
                taken = isinstance(answer, NodeLost) and answer.perhaps
                missing[node] = NoAnswer(answer, taken, node not in self._nodes())
            elif isinstance(answer, BaseException):
                raise answer
            else:
                given[node] = answer
        return Answers(given, missing)

    def _others(self) -> list[str]:
        return sorted(node for node in self._nodes() if node != self.node)

    async def _ask_node(self, node: str, request: NodeRequest[T], seconds: float | None) -> T:
        kind = answer_of(type(request))
        if not request.framed:
            answer: T = await self.requests.ask(node, request.lane, request, kind, seconds)
            return answer
        framed = await self.requests.ask(node, request.lane, request, bytes, seconds)
        try:
            answer = datagrams.decode_value(framed, kind)
        except msgspec.MsgspecError as error:
            unreadable = "an answer of another node cannot be read"
            raise Internal(unreadable, f"{unreadable}: {error}") from error
        return answer

    # -- between the two ------------------------------------------------------------------------

    def _receive(self, data: bytes) -> None:
        if self._closed or self.muted:
            return
        try:
            datagram = self._reader.read(data)
        except Malformed as error:
            logger.warning("ignored: %s", error)
            return
        if isinstance(datagram, FeedDatagram):
            self._receiver.receive_event(datagram)
        elif isinstance(datagram, Heads):
            self._receiver.receive_heads(datagram)
        elif isinstance(datagram, LaneRequest):
            self._receiver.receive_request(datagram)
        elif datagram.receiver == self.incarnation:
            if isinstance(datagram, Reply):
                self.requests.receive_reply(datagram)
            else:
                self.requests.meet(datagram)
