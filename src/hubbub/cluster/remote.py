"""The bus between nodes, over a transport that promises nothing.

Requests go to the owner of their channel, are sent again until they are answered, and are taken
up once and in order (`cluster.lanes`). Who has no answer in time gets `Unavailable`: then it is
not known whether the request took effect, only that it did not do so twice. Messages and heads on
their way to subscribers are sent once, since receivers find out what they miss; joins, leaves and
counts are sent like requests, since nobody would.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

import msgspec

from hubbub.cluster import datagrams
from hubbub.cluster.datagrams import Call, Feed, Reply, Request, Stranger
from hubbub.cluster.lanes import Conclude, Pending, ReceivingLane, SendingLane
from hubbub.cluster.transport import Transport
from hubbub.domain.errors import HubbubError, Internal, Malformed, StaleOwner, Unavailable
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

logger = logging.getLogger(__name__)

HUB_LANE = -1
"""The lane of what concerns a whole hub; all others are numbered like the partitions."""
REMEMBERED_EVENTS = 4096
REMEMBERED_INCARNATIONS = 8

_QUESTIONS = (
    datagrams.AskMembers | datagrams.AskOccupancy | datagrams.AskHistory | datagrams.AskTopic
)

OwnerOf = Callable[[str, str], str]
"""The node that owns a channel: (hub, channel)."""


class Patience(msgspec.Struct, frozen=True):
    """How long to wait for an answer, and how soon to ask again."""

    deadline_seconds: float = 5.0
    first_retry_seconds: float = 0.05
    longest_retry_seconds: float = 1.0


class _Peer:
    """Another node, as the sender of requests sees it."""

    __slots__ = ("former", "incarnation", "lanes", "node")

    def __init__(self, node: str) -> None:
        self.node = node
        self.incarnation = ""
        self.former: deque[str] = deque(maxlen=REMEMBERED_INCARNATIONS)
        self.lanes: dict[int, SendingLane] = {}


class _Caller:
    """Another node, as the receiver of its datagrams sees it, in one incarnation."""

    __slots__ = ("_order", "_seen", "former", "incarnation", "lanes")

    def __init__(self) -> None:
        self.incarnation = ""
        self.former: deque[str] = deque(maxlen=REMEMBERED_INCARNATIONS)
        self.forget()

    def forget(self) -> None:
        self.lanes: dict[int, ReceivingLane] = {}
        self._seen: set[int] = set()
        self._order: deque[int] = deque()

    def is_new(self, number: int) -> bool:
        """Whether a feed event of this number comes for the first time."""
        if number in self._seen:
            return False
        if len(self._order) >= REMEMBERED_EVENTS:
            self._seen.discard(self._order.popleft())
        self._order.append(number)
        self._seen.add(number)
        return True


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
        self._reread_hub = reread_hub
        self._patience = patience
        self._peers: dict[str, _Peer] = {}
        self._callers: dict[str, _Caller] = {}
        self._events = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._owner: ChannelOwner
        self._sink: FeedSink

    def connect(self, owner: ChannelOwner, sink: FeedSink) -> None:
        self._owner = owner
        self._sink = sink
        self._transport.listen(self._receive)

    async def close(self) -> None:
        """Answer whoever still waits, and end what is under way."""
        self._closed = True
        error = Unavailable("this node leaves the cluster")
        for peer in self._peers.values():
            for lane in peer.lanes.values():
                for pending in [*lane.under_way.values(), *lane.waiting]:
                    self._conclude(pending, None, error)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

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
        self._request(owner, lane, call, datagrams.Published, conclude)

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
        answers = [self._ask_node(node, HUB_LANE, call, None) for node in others]
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
                self._request(node, lane, datagrams.Tell(hub, channel, event), None, _ignore)

    # -- sending requests -----------------------------------------------------------------------

    def _owns(self, hub: str, channel: str) -> bool:
        return self._owner_of(hub, channel) == self.node

    def _say(self, hub: str, channel: str, call: Call) -> None:
        """A request that nobody waits for."""
        self._request(self._owner_of(hub, channel), partition_of(hub, channel), call, None, _ignore)

    async def _ask(self, hub: str, channel: str, call: Call, kind: Any) -> Any:
        owner = self._owner_of(hub, channel)
        return await self._ask_node(owner, partition_of(hub, channel), call, kind)

    async def _ask_node(self, node: str, lane: int, call: Call, kind: Any) -> Any:
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def conclude(value: Any, error: HubbubError | None) -> None:
            if answered.done():
                return
            if error is None:
                answered.set_result(value)
            else:
                answered.set_exception(error)

        self._request(node, lane, call, kind, conclude)
        return await answered

    def _request(self, node: str, lane_id: int, call: Call, kind: Any, conclude: Conclude) -> None:
        if self._closed:
            conclude(None, Unavailable("this node leaves the cluster"))
            return
        peer = self._peers.get(node)
        if peer is None:
            peer = self._peers[node] = _Peer(node)
        lane = peer.lanes.get(lane_id)
        if lane is None:
            lane = peer.lanes[lane_id] = SendingLane(node, lane_id)
        deadline = asyncio.get_running_loop().time() + self._patience.deadline_seconds
        lane.add(Pending(lane, call, kind, conclude, deadline))
        self._start(peer, lane)

    def _start(self, peer: _Peer, lane: SendingLane) -> None:
        for pending in lane.start():
            pending.delay = self._patience.first_retry_seconds
            self._send(peer, pending)

    def _send(self, peer: _Peer, pending: Pending) -> None:
        """Send it, for the first time or again, and look after it in a while."""
        loop = asyncio.get_running_loop()
        pending.sent = pending.sent or bool(peer.incarnation)
        lane = pending.lane
        request = Request(
            self.node,
            self.incarnation,
            peer.incarnation,
            lane.id,
            pending.number,
            lane.floor,
            pending.call,
        )
        self._transport.send(peer.node, datagrams.encode(request))
        delay = min(pending.delay, max(pending.deadline - loop.time(), 0.0))
        pending.delay = min(pending.delay * 2, self._patience.longest_retry_seconds)
        if pending.timer is not None:
            pending.timer.cancel()
        pending.timer = loop.call_later(delay, self._look_after, peer, pending)

    def _look_after(self, peer: _Peer, pending: Pending) -> None:
        if asyncio.get_running_loop().time() < pending.deadline:
            self._send(peer, pending)
        else:
            self._conclude(pending, None, Unavailable(f"node {peer.node!r} does not answer"))

    def _conclude(self, pending: Pending, value: Any, error: HubbubError | None) -> None:
        if pending.timer is not None:
            pending.timer.cancel()
        lane = pending.lane
        lane.remove(pending)
        pending.conclude(value, error)
        if not self._closed:
            self._start(self._peers[lane.node], lane)
            self._expire_waiting(lane)

    def _expire_waiting(self, lane: SendingLane) -> None:
        """Those that wait for a place have no timer; they are older the further ahead."""
        now = asyncio.get_running_loop().time()
        while lane.waiting and lane.waiting[0].deadline <= now:
            pending = lane.waiting.popleft()
            pending.conclude(None, Unavailable(f"node {lane.node!r} answers too slowly"))

    # -- receiving ------------------------------------------------------------------------------

    def _receive(self, data: bytes) -> None:
        if self._closed:
            return
        try:
            datagram = datagrams.decode(data)
        except Malformed as error:
            logger.warning("ignored: %s", error)
            return
        if isinstance(datagram, Feed):
            self._receive_event(datagram)
        elif isinstance(datagram, Request):
            self._receive_request(datagram)
        elif datagram.receiver == self.incarnation:
            if isinstance(datagram, Reply):
                self._receive_reply(datagram)
            else:
                self._meet(datagram)

    def _caller(self, node: str, incarnation: str) -> _Caller | None:
        """The sender's state here; None for a datagram from before its restart."""
        caller = self._callers.get(node)
        if caller is None:
            caller = self._callers[node] = _Caller()
        if incarnation in caller.former:
            return None
        if incarnation != caller.incarnation:
            caller.former.append(caller.incarnation)
            caller.incarnation = incarnation
            caller.forget()
        return caller

    def _receive_event(self, feed: Feed) -> None:
        caller = self._caller(feed.sender, feed.incarnation)
        if caller is not None and caller.is_new(feed.number):
            self._sink.receive(feed.hub, feed.channel, feed.event)

    def _receive_reply(self, reply: Reply) -> None:
        peer = self._peers.get(reply.sender)
        lane = peer.lanes.get(reply.lane) if peer is not None else None
        pending = lane.under_way.get(reply.number) if lane is not None else None
        if pending is None or peer is None or peer.incarnation != reply.incarnation:
            return
        if reply.error is not None:
            self._conclude(pending, None, reply.error)
            return
        try:
            value = datagrams.decode_value(reply.value, pending.kind)
        except msgspec.MsgspecError as error:
            self._conclude(pending, None, Internal(f"an answer cannot be read: {error}"))
            return
        self._conclude(pending, value, None)

    def _meet(self, stranger: Stranger) -> None:
        """The node is another incarnation than was thought: what went to the one before may have
        taken effect or not, and nobody is left to tell; the rest goes to the new one."""
        peer = self._peers.get(stranger.sender)
        if peer is None or stranger.incarnation in (peer.incarnation, *peer.former):
            return
        if peer.incarnation:
            peer.former.append(peer.incarnation)
        peer.incarnation = stranger.incarnation
        error = Unavailable(f"node {peer.node!r} was restarted before it answered")
        for lane in list(peer.lanes.values()):
            under_way = list(lane.under_way.values())
            for pending in [pending for pending in under_way if pending.sent]:
                self._conclude(pending, None, error)
            for pending in [pending for pending in under_way if not pending.sent]:
                self._send(peer, pending)

    # -- taking requests up ---------------------------------------------------------------------

    def _receive_request(self, request: Request) -> None:
        if request.receiver != self.incarnation:
            stranger = Stranger(self.node, self.incarnation, request.incarnation)
            self._transport.send(request.sender, datagrams.encode(stranger))
            return
        caller = self._caller(request.sender, request.incarnation)
        if caller is None:
            return
        lane = caller.lanes.get(request.lane)
        if lane is None:
            lane = caller.lanes[request.lane] = ReceivingLane()
        answered = lane.answer_to(request.number)
        if answered is not None:
            self._transport.send(request.sender, answered)
        for number, call in lane.take(request.number, request.floor, request.call):
            self._take_up(request.sender, call, _Answer(self, request, lane, number))

    def _take_up(self, node: str, call: Call, answer: _Answer) -> None:
        """A task begins in the next turn of the loop: so must all others, to keep the order."""
        if isinstance(call, datagrams.Attach | _QUESTIONS | datagrams.HubChanged):
            self._spawn(self._answer_later(node, call, answer))
        else:
            asyncio.get_running_loop().call_soon(self._answer_now, node, call, answer)

    def _take_up_publish(self, call: datagrams.Publish, answer: _Answer) -> None:
        if call.awaited:
            self._owner.publish(call.message, answer.give_outcome)
        else:
            self._owner.publish(call.message, None)
            answer.give(datagrams.Published(0))

    def _answer_now(self, node: str, call: Call, answer: _Answer) -> None:
        if self._closed:
            return
        try:
            self._check_owner(call)
        except StaleOwner as error:
            answer.fail(error)
            return
        owner = self._owner
        if isinstance(call, datagrams.Publish):
            self._take_up_publish(call, answer)
            return
        if isinstance(call, datagrams.Tell):
            self._sink.receive(call.hub, call.channel, call.event)
        elif isinstance(call, datagrams.Detach):
            owner.detach(node, call.hub, call.channel)
        elif isinstance(call, datagrams.Join):
            owner.join(node, call.hub, call.channel, call.members)
        elif isinstance(call, datagrams.Leave):
            owner.leave(node, call.hub, call.channel, call.session_ids)
        elif isinstance(call, datagrams.Occupy):
            owner.occupy(node, call.hub, call.channel, call.count)
        answer.give(None)

    async def _answer_later(self, node: str, call: Call, answer: _Answer) -> None:
        try:
            self._check_owner(call)
            answer.give(await self._find_out(node, call))
        except HubbubError as error:
            answer.fail(error)
        except Exception:
            logger.exception("a request of node %s failed in an unforeseen way", node)
            answer.fail(Internal("the channel's owner failed to handle the request"))

    async def _find_out(self, node: str, call: Call) -> object:
        owner = self._owner
        if isinstance(call, datagrams.Attach):
            return await owner.attach(node, call.hub, call.channel)
        if isinstance(call, datagrams.AskMembers):
            return await owner.members(call.hub, call.channel)
        if isinstance(call, datagrams.AskOccupancy):
            return await owner.occupancy(call.hub, call.channel)
        if isinstance(call, datagrams.AskHistory):
            return await owner.history(call.query)
        if isinstance(call, datagrams.AskTopic):
            return await owner.topic(call.request)
        if isinstance(call, datagrams.HubChanged):
            await self._reread_hub(call.hub)
            owner.hub_changed(call.hub)
            self._sink.hub_changed(call.hub)
        return None

    def _check_owner(self, call: Call) -> None:
        """Raises `StaleOwner` if the call is for a channel that another node owns."""
        channel = _channel_of(call)
        if channel is not None and not self._owns(*channel):
            hub, name = channel
            raise StaleOwner(f"node {self.node!r} does not own {name!r} of hub {hub!r}")

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _send_answer(self, node: str, data: bytes) -> None:
        if not self._closed:
            self._transport.send(node, data)


class _Answer:
    """Where the answer to one request goes, and where it is kept for a second asking."""

    __slots__ = ("_bus", "_lane", "_number", "_request")

    def __init__(self, bus: RemoteBus, request: Request, lane: ReceivingLane, number: int) -> None:
        self._bus = bus
        self._request = request
        self._lane = lane
        self._number = number

    def give(self, value: object) -> None:
        self._send(datagrams.encode_value(value), None)

    def give_outcome(self, outcome: PublishOutcome) -> None:
        if outcome.error is not None:
            self.fail(outcome.error)
        else:
            self.give(datagrams.Published(outcome.serial, outcome.duplicate, outcome.message_id))

    def fail(self, error: HubbubError) -> None:
        self._send(datagrams.NOTHING, error)

    def _send(self, value: msgspec.Raw, error: HubbubError | None) -> None:
        request = self._request
        data = datagrams.encode(
            Reply(
                self._bus.node,
                self._bus.incarnation,
                request.incarnation,
                request.lane,
                self._number,
                value,
                error,
            )
        )
        self._lane.answer(self._number, data)
        self._bus._send_answer(request.sender, data)


def _channel_of(call: Call) -> tuple[str, str] | None:
    """The channel whose owner must answer the call; None where any node may."""
    if isinstance(call, datagrams.Publish):
        return call.message.hub, call.message.channel
    if isinstance(call, datagrams.AskHistory):
        return call.query.hub, call.query.channel
    if isinstance(call, datagrams.AskTopic):
        return channel_of(call.request)
    if isinstance(call, datagrams.Tell | datagrams.HubChanged):
        return None
    return call.hub, call.channel


def _ignore(value: Any, error: HubbubError | None) -> None:
    pass
