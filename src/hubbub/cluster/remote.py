"""The bus between nodes, over a transport that promises nothing.

Requests go to the owner of their channel, are sent again until they are answered
(`cluster.sending`), and are taken up once and in order (`cluster.receiving`, `cluster.lanes`). Who
has no answer in time gets `Unavailable`: then it is not known whether the request took effect,
only that it did not do so twice. The other way, to the followers, is `cluster.emitting`.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import Any, TypeVar

from hubbub.cluster import datagrams
from hubbub.cluster.datagrams import Call, Feed, Heads, Reply, Request
from hubbub.cluster.emitting import HUB_LANE, Emitter, ignore
from hubbub.cluster.receiving import Receiver
from hubbub.cluster.sending import NodeLost, Patience, Requests
from hubbub.cluster.service import RereadHub, Service
from hubbub.cluster.traced_routes import make_routes
from hubbub.cluster.transport import Owners, Transport
from hubbub.domain.commands.routed import RoutedCommand, RoutedMessage, RoutedResult
from hubbub.domain.documents.changes import DocumentAnswer, DocumentQuery
from hubbub.domain.errors import HubbubError, Internal, Malformed
from hubbub.domain.history import HistoryQuery
from hubbub.domain.messages import Message
from hubbub.domain.names import partition_of
from hubbub.domain.notices import HistoryPage, Member
from hubbub.domain.notifications import NotificationAnswer, NotificationRequest
from hubbub.domain.threads import ThreadsFound, ThreadsQuery
from hubbub.domain.topics import TopicAnswer, TopicRequest, answer_type, channel_of
from hubbub.engine.channels.owner import ChannelOwner
from hubbub.ports.bus import (
    Attachment,
    CommandReceiver,
    FeedSink,
    Following,
    Matches,
    PublishReply,
    Replies,
    Watch,
)
from hubbub.ports.spans import Spans

__all__ = ["Patience", "RemoteBus"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

QUESTION_LANE = -2
COMMAND_LANE = -3
QUESTION_SECONDS = 2.0
PATTERN_LANE = -3


class RemoteBus:
    """The bus of one node among many. `connect` closes the circle after both ends exist."""

    alone = False

    def __init__(
        self,
        node: str,
        transport: Transport,
        *,
        owners: Owners,
        nodes: Callable[[], Sequence[str]],
        reread_hub: RereadHub,
        patience: Patience = Patience(),  # noqa: B008 - immutable
        incarnation: str = "",
        spans: Spans | None = None,
    ) -> None:
        """`nodes` are all members, this one included; `reread_hub` brings a hub's settings into
        this node's memory after another node changed them."""
        self.node = node
        self.incarnation = incarnation or secrets.token_hex(8)
        self._transport = transport
        self._nodes = nodes
        self._reread_hub = reread_hub
        self.requests = Requests(node, self.incarnation, transport, patience)
        self._receiver = Receiver(node, self.incarnation, transport, owners)
        self._routes = make_routes(node, owners, self.requests, patience.deadline_seconds, spans)
        self._emitter = Emitter(node, self.incarnation, transport, self.requests, nodes)
        self.emit = self._emitter.emit
        """The owner's way to the nodes."""
        self._closed = False
        self.muted = False
        """Set until it is known that nobody else has this node's name: what is said to that name
        would not be meant for this one."""
        self._service: Service
        self._command_receiver: CommandReceiver | None = None

    def connect(self, owner: ChannelOwner, sink: FeedSink) -> None:
        self._service = Service(owner, sink, self._reread_hub, self._command_receiver)
        self._receiver.service = self._routes.service = self._emitter.service = self._service
        self._transport.listen(self._receive)

    async def close(self) -> None:
        """Answer whoever still waits, and end what is under way."""
        self._closed = self._emitter.closed = True
        self.requests.close()
        await self._routes.close()
        await self._receiver.close()

    def owners_changed(self) -> None:
        """The ring is another one, or this node has taken over what it should."""
        self._receiver.owners_changed()
        self._routes.owners_changed()

    def ask_to_renew(
        self, partitions: Collection[int], nodes: Collection[str] | None = None
    ) -> None:
        """Have nodes, or all of them, say again what they follow of these partitions."""
        call = datagrams.Renew(tuple(partitions))
        for node in self._nodes() if nodes is None else nodes:
            if node == self.node:
                self._service.do(node, call)
            else:
                self.requests.send(node, HUB_LANE, call, None, ignore)

    # -- what sessions call ---------------------------------------------------------------------

    def publish(self, message: Message, reply: PublishReply | None) -> None:
        self._routes.publish(partition_of(message.hub, message.channel), message, reply)

    async def attach(self, hub: str, channel: str) -> Attachment:
        return await self._ask(hub, channel, datagrams.Attach(hub, channel), Attachment)

    async def follow(self, followings: Sequence[Following]) -> list[Attachment | HubbubError]:
        """One call for each partition, so that it keeps its place among joins and leaves."""
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

    def detach(self, hub: str, channel: str) -> None:
        self._say(hub, channel, datagrams.Detach(hub, channel))

    def join(self, hub: str, channel: str, members: Sequence[Member]) -> None:
        self._say(hub, channel, datagrams.Join(hub, channel, tuple(members)))

    def leave(self, hub: str, channel: str, session_ids: Sequence[str]) -> None:
        self._say(hub, channel, datagrams.Leave(hub, channel, tuple(session_ids)))

    def occupy(self, hub: str, channel: str, count: int) -> None:
        self._say(hub, channel, datagrams.Occupy(hub, channel, count))

    async def members(self, hub: str, channel: str) -> tuple[Member, ...]:
        call = datagrams.AskMembers(hub, channel)
        return await self._ask(hub, channel, call, tuple[Member, ...])

    async def occupancy(self, hub: str, channel: str) -> int:
        return await self._ask(hub, channel, datagrams.AskOccupancy(hub, channel), int)

    async def history(self, query: HistoryQuery) -> HistoryPage:
        call = datagrams.AskHistory(query)
        return await self._ask(query.hub, query.channel, call, HistoryPage)

    async def threads(self, query: ThreadsQuery) -> ThreadsFound:
        call = datagrams.AskThreads(query)
        found: ThreadsFound = await self._ask(query.hub, query.channel, call, ThreadsFound)
        return found

    async def document(self, query: DocumentQuery) -> DocumentAnswer:
        call = datagrams.AskDocument(query)
        answer: DocumentAnswer = await self._ask(query.hub, query.channel, call, DocumentAnswer)
        return answer

    async def topic(self, request: TopicRequest) -> TopicAnswer:
        hub, channel = channel_of(request)
        kind: type[TopicAnswer] = answer_type(request)
        return await self._ask(hub, channel, datagrams.AskTopic(request), kind)

    async def notification(self, request: NotificationRequest) -> NotificationAnswer:
        call = datagrams.AskNotifications(request)
        answer: NotificationAnswer = await self._ask(
            request.hub, request.channel, call, request.answer
        )
        return answer

    async def watch(self, watch: Watch) -> Matches:
        """Every node may own channels sooner or later: all are told. What one that goes meanwhile
        would answer, its successor does."""
        others = [node for node in self._nodes() if node != self.node]
        call = datagrams.WatchPatterns(watch)
        answers = await asyncio.gather(
            self._service.owner.watch(self.node, watch),
            *(
                self.requests.ask(node, PATTERN_LANE, call, Matches, QUESTION_SECONDS)
                for node in others
            ),
            return_exceptions=True,
        )
        found: list[Matches] = []
        for node, answer in zip([self.node, *others], answers, strict=True):
            if isinstance(answer, Matches):
                found.append(answer)
            elif isinstance(answer, BaseException) and node in self._nodes():
                raise answer
        return Matches(
            tuple(dict.fromkeys(name for each in found for name in each.channels)),
            max((each.complete_since for each in found), default=0),
        )

    async def learn_watches(self) -> None:
        """Ask all nodes for their patterns, before this one owns channels. Who does not answer says
        them by itself when the owners have changed."""
        others = [node for node in self._nodes() if node != self.node]
        call, kind = datagrams.AskWatches(), tuple[Watch, ...]
        answers = await asyncio.gather(
            *(
                self.requests.ask(node, PATTERN_LANE, call, kind, QUESTION_SECONDS)
                for node in others
            ),
            return_exceptions=True,
        )
        for node, answer in zip(others, answers, strict=True):
            for watch in () if isinstance(answer, BaseException) else answer:
                self._service.owner.watching.learn(node, watch)

    def announce_session(self, hub: str, session_id: str, kept: Sequence[str]) -> None:
        call = datagrams.SessionTaken(hub, session_id, tuple(kept))
        for node in self._nodes():
            if node != self.node:
                self.requests.send(node, HUB_LANE, call, None, ignore)

    async def ask_others(self, question: bytes) -> Replies:
        others = [node for node in self._nodes() if node != self.node]
        call = datagrams.Question(question)
        answers = await asyncio.gather(
            *(
                self.requests.ask(node, QUESTION_LANE, call, bytes, QUESTION_SECONDS)
                for node in others
            ),
            return_exceptions=True,
        )
        found = dict(zip(others, answers, strict=True))
        return Replies(
            {node: answer for node, answer in found.items() if isinstance(answer, bytes)},
            tuple(node for node, answer in found.items() if not isinstance(answer, bytes)),
        )

    def answer_with(self, answer: Callable[[bytes], Awaitable[bytes]]) -> None:
        self._service.answer = answer

    def receive_commands(self, receiver: CommandReceiver) -> None:
        self._command_receiver = receiver

    async def route_command(self, routed: RoutedCommand) -> int:
        answers = await self._ask_for_clients(datagrams.RouteCommand(routed))
        return sum(_sessions_that_have_it(answer) for answer in answers)

    def return_result(self, node: str, routed: RoutedResult) -> None:
        self.requests.send(node, COMMAND_LANE, datagrams.ReturnResult(routed), None, ignore)

    async def route_message(self, routed: RoutedMessage) -> None:
        await self._ask_for_clients(datagrams.RouteMessage(routed))

    async def _ask_for_clients(
        self, call: datagrams.RouteCommand | datagrams.RouteMessage
    ) -> list[int | BaseException]:
        """The answers of the other nodes, and why those that do not answer soon do not."""
        asked = (
            self.requests.ask(node, COMMAND_LANE, call, int, QUESTION_SECONDS)
            for node in self._nodes()
            if node != self.node
        )
        answers: list[int | BaseException] = await asyncio.gather(*asked, return_exceptions=True)
        return answers

    async def announce_hub_change(self, hub: str) -> None:
        """A node that cannot be reached now rereads the settings by itself later."""
        await self._announce_change(hub, None)

    async def announce_channel_change(self, hub: str, channel: str) -> None:
        await self._announce_change(hub, channel)

    async def _announce_change(self, hub: str, channel: str | None) -> None:
        self._service.changed(hub, channel)
        await self._tell_others(datagrams.HubChanged(hub, channel))

    async def announce_user(self, hub: str, user_id: str, channel: str, follows: bool) -> None:
        """A node that cannot be reached now loses its sessions, which read it when they return."""
        await self._service.sink.user_follows(hub, user_id, channel, follows)
        await self._tell_others(datagrams.UserFollows(hub, user_id, channel, follows))

    async def announce_erasure(self, hub: str, user_id: str) -> None:
        self._service.owner.push.erased(hub, user_id)
        await self._tell_others(datagrams.UserErased(hub, user_id))

    async def _tell_others(
        self, call: datagrams.HubChanged | datagrams.UserFollows | datagrams.UserErased
    ) -> None:
        others = [node for node in self._nodes() if node != self.node]
        answers = [self.requests.ask(node, HUB_LANE, call, None) for node in others]
        for node, answer in zip(
            others, await asyncio.gather(*answers, return_exceptions=True), strict=True
        ):
            if isinstance(answer, HubbubError):
                logger.warning(
                    "node %s does not know yet that %r changed: %s", node, call.hub, answer
                )
            elif isinstance(answer, BaseException):
                raise answer

    # -- between the two ------------------------------------------------------------------------

    def _say(self, hub: str, channel: str, call: Call) -> None:
        """A call that nobody waits for. If it is given up, the owner is told everything again."""
        partition = partition_of(hub, channel)
        if self._routes.is_direct(partition):
            self._service.do(self.node, call)
            return

        def conclude(value: Any, error: HubbubError | None) -> None:
            if error is not None and not self._closed:
                self._service.sink.owners_changed((partition,))

        self._routes.send(partition, call, None, conclude)

    async def _ask(self, hub: str, channel: str, call: Call, kind: type[T]) -> T:
        answer: T = await self._routes.ask(partition_of(hub, channel), call, kind)
        return answer

    def _receive(self, data: bytes) -> None:
        if self._closed or self.muted:
            return
        try:
            datagram = datagrams.decode(data)
        except Malformed as error:
            logger.warning("ignored: %s", error)
            return
        if isinstance(datagram, Feed):
            self._receiver.receive_event(datagram)
        elif isinstance(datagram, Heads):
            self._receiver.receive_heads(datagram)
        elif isinstance(datagram, Request):
            self._receiver.receive_request(datagram)
        elif datagram.receiver == self.incarnation:
            if isinstance(datagram, Reply):
                self.requests.receive_reply(datagram)
            else:
                self.requests.meet(datagram)


def _sessions_that_have_it(answer: int | BaseException) -> int:
    """Of a node that was asked to hand something to sessions: as far as is known, or one."""
    if isinstance(answer, int):
        return answer
    return int(isinstance(answer, NodeLost) and answer.perhaps)
