"""Processes requests of other nodes once and in order, and answers them."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Any

import msgspec

from hubbub.cluster import datagrams
from hubbub.cluster.datagrams import Call, FeedDatagram, Heads, LaneRequest, Reply, Stranger
from hubbub.cluster.lanes import ReceivingLane
from hubbub.cluster.service import QUESTIONS, Service
from hubbub.cluster.transport import Owners, Transport
from hubbub.domain.asking import FeedEvent
from hubbub.domain.errors import HubbubError, Internal, StaleOwner
from hubbub.domain.names import partition_of
from hubbub.ports.bus import HeadAnnounced, PublishOutcome
from hubbub.tasks import TaskSet

logger = logging.getLogger(__name__)

REMEMBERED_EVENTS = 4096
REMEMBERED_INCARNATIONS = 8


class _Caller:
    """Another node in one incarnation, as seen by the receiver of its datagrams."""

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
        """Whether a feed event with this number arrives for the first time."""
        if number in self._seen:
            return False
        if len(self._order) >= REMEMBERED_EVENTS:
            self._seen.discard(self._order.popleft())
        self._order.append(number)
        self._seen.add(number)
        return True


class RequestReceiver:
    """The receiving ends of all lanes of one node."""

    def __init__(
        self,
        node: str,
        incarnation: str,
        transport: Transport,
        owners: Owners,
        service: Service,
    ) -> None:
        self.service = service
        self.node = node
        self.incarnation = incarnation
        self._transport = transport
        self._owners = owners
        self._held: list[tuple[str, Call, _PendingReply]] = []
        self._callers: dict[str, _Caller] = {}
        self._tasks = TaskSet()
        self._closed = False

    def owners_changed(self) -> None:
        """Checks again the calls for partitions that this node was about to take over."""
        held, self._held = self._held, []
        for node, call, answer in held:
            self._take_up(node, call, answer)

    async def close(self) -> None:
        """Cancels requests in progress."""
        self._closed = True
        await self._tasks.end()

    def receive_event(self, feed: FeedDatagram[FeedEvent]) -> None:
        caller = self._caller(feed.sender, feed.incarnation)
        if caller is not None and caller.is_new(feed.number):
            self.service.sink.receive(feed.hub, feed.channel, feed.event)

    def receive_heads(self, heads: Heads) -> None:
        if self._caller(heads.sender, heads.incarnation) is not None:
            for each in heads.heads:
                event = HeadAnnounced(each.epoch, each.head, each.document)
                self.service.sink.receive(each.hub, each.channel, event)

    def receive_request(self, request: LaneRequest[Call]) -> None:
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
        ready = lane.take(request.number, request.floor, request.call, request.since)
        for number, call, since in ready:
            self._take_up(request.sender, call, _PendingReply(self, request, lane, number, since))

    def send_answer(self, node: str, data: bytes) -> None:
        if not self._closed:
            self._transport.send(node, data)

    def _caller(self, node: str, incarnation: str) -> _Caller | None:
        """The sender's state; None for a datagram of an earlier incarnation."""
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

    def _take_up(self, node: str, call: Call, answer: _PendingReply) -> None:
        """A task starts in the next turn of the event loop: so must all other calls, to keep the
        order."""
        place = datagrams.place_of(call)
        if place is not None:
            partition = partition_of(*place)
            if answer.overtakes:
                answer.refuse(place)
                return
            if not self._owners.serves(partition):
                if self._owners.owner_of(partition) == self.node:
                    self._held.append((node, call, answer))
                else:
                    answer.refuse(place)
                return
        if isinstance(call, QUESTIONS):
            self._tasks.start(self._answer_later(node, call, answer))
        else:
            asyncio.get_running_loop().call_soon(self._answer_now, node, call, answer)

    def _answer_now(self, node: str, call: Call, answer: _PendingReply) -> None:
        if self._closed:
            return
        place = datagrams.place_of(call)
        if place is not None and not self._owners.serves(partition_of(*place)):
            answer.refuse(place)  # it moved in this turn of the loop
        elif isinstance(call, datagrams.PublishCall):
            self._publish(call, answer)
        else:
            self.service.do(node, call)
            answer.give(None)

    def _publish(self, call: datagrams.PublishCall[Any], answer: _PendingReply) -> None:
        if call.awaited:
            self.service.owner.publish(call.message, answer.give_outcome)
        else:
            self.service.owner.publish(call.message, None)
            answer.give(datagrams.PublishConfirmed(0))

    async def _answer_later(self, node: str, call: Call, answer: _PendingReply) -> None:
        try:
            found = await self.service.find_out(node, call)
            answer.give(datagrams.answer_to(call, found))
        except HubbubError as error:
            answer.fail(error)
        except Exception:
            logger.exception("a request of node %s failed in an unforeseen way", node)
            answer.fail(Internal("the channel's owner failed to handle the request"))


class _PendingReply:
    """Sends the response to one request, and keeps it for a repeated request."""

    __slots__ = ("_lane", "_number", "_receiver", "_request", "_since")

    def __init__(
        self,
        receiver: RequestReceiver,
        request: LaneRequest[Call],
        lane: ReceivingLane,
        number: int,
        since: int,
    ) -> None:
        self._receiver = receiver
        self._request = request
        self._lane = lane
        self._number = number
        self._since = since

    @property
    def overtakes(self) -> bool:
        """Whether an earlier call was refused and the sender did not know that when it sent this
        one."""
        return self._since <= self._lane.refused

    def refuse(self, place: tuple[str, str]) -> None:
        hub, channel = place
        self.fail(StaleOwner(f"another node owns {channel!r} of hub {hub!r} by now"))

    def give(self, value: object) -> None:
        self._send(datagrams.encode_value(value), None)

    def give_outcome(self, outcome: PublishOutcome) -> None:
        if outcome.error is not None:
            self.fail(outcome.error)
        else:
            o = outcome
            self.give(datagrams.PublishConfirmed(o.serial, o.duplicate, o.message_id, o.change))

    def fail(self, error: HubbubError) -> None:
        if isinstance(error, StaleOwner):
            self._lane.refused = max(self._lane.refused, self._number)
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
