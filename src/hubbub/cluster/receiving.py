"""Requests of other nodes: taken up once and in order, and answered."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec

from hubbub.cluster import datagrams
from hubbub.cluster.datagrams import Call, Feed, Reply, Request, Stranger
from hubbub.cluster.lanes import ReceivingLane
from hubbub.cluster.transport import Transport
from hubbub.domain.errors import HubbubError, Internal, StaleOwner
from hubbub.domain.topics import channel_of
from hubbub.engine.owner import ChannelOwner
from hubbub.ports.bus import FeedSink, PublishOutcome

logger = logging.getLogger(__name__)

REMEMBERED_EVENTS = 4096
REMEMBERED_INCARNATIONS = 8

_QUESTIONS = (
    datagrams.AskMembers | datagrams.AskOccupancy | datagrams.AskHistory | datagrams.AskTopic
)


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


class Receiver:
    """The receiving ends of all lanes of one node."""

    def __init__(
        self,
        node: str,
        incarnation: str,
        transport: Transport,
        *,
        owns: Callable[[str, str], bool],
        reread_hub: Callable[[str], Awaitable[None]],
    ) -> None:
        self.node = node
        self.incarnation = incarnation
        self._transport = transport
        self._owns = owns
        self._reread_hub = reread_hub
        self._callers: dict[str, _Caller] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._owner: ChannelOwner
        self._sink: FeedSink

    def connect(self, owner: ChannelOwner, sink: FeedSink) -> None:
        self._owner = owner
        self._sink = sink

    async def close(self) -> None:
        """End what is under way."""
        self._closed = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def receive_event(self, feed: Feed) -> None:
        caller = self._caller(feed.sender, feed.incarnation)
        if caller is not None and caller.is_new(feed.number):
            self._sink.receive(feed.hub, feed.channel, feed.event)

    def receive_request(self, request: Request) -> None:
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

    def send_answer(self, node: str, data: bytes) -> None:
        if not self._closed:
            self._transport.send(node, data)

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

    # -- taking requests up ---------------------------------------------------------------------

    def _take_up(self, node: str, call: Call, answer: _Answer) -> None:
        """A task begins in the next turn of the loop: so must all others, to keep the order."""
        if isinstance(call, datagrams.Attach | _QUESTIONS | datagrams.HubChanged):
            self._spawn(self._answer_later(node, call, answer))
        else:
            asyncio.get_running_loop().call_soon(self._answer_now, node, call, answer)

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
            self._publish(call, answer)
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

    def _publish(self, call: datagrams.Publish, answer: _Answer) -> None:
        if call.awaited:
            self._owner.publish(call.message, answer.give_outcome)
        else:
            self._owner.publish(call.message, None)
            answer.give(datagrams.Published(0))

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


class _Answer:
    """Where the answer to one request goes, and where it is kept for a second asking."""

    __slots__ = ("_lane", "_number", "_receiver", "_request")

    def __init__(
        self, receiver: Receiver, request: Request, lane: ReceivingLane, number: int
    ) -> None:
        self._receiver = receiver
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
        request, receiver = self._request, self._receiver
        data = datagrams.encode(
            Reply(
                receiver.node,
                receiver.incarnation,
                request.incarnation,
                request.lane,
                self._number,
                value,
                error,
            )
        )
        self._lane.answer(self._number, data)
        receiver.send_answer(request.sender, data)


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
