"""Sends requests to other nodes, and repeats them until they are answered or given up."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import msgspec

from hubbub.cluster import datagrams
from hubbub.cluster.datagrams import Call, LaneRequest, Reply, Stranger
from hubbub.cluster.lanes import Conclude, Pending, SendingLane, awaited
from hubbub.cluster.transport import Transport
from hubbub.domain.asking import NodeRequest, OwnerRequest
from hubbub.domain.errors import HubbubError, Internal, Unavailable

REMEMBERED_INCARNATIONS = 8
_FORGETS = 0.98
OUTAGE_SECONDS = 1.0
"""How long the network may be down before calls to other nodes fail at once."""
UNREADABLE = "an answer of the channel's owner cannot be read"


class Patience(msgspec.Struct, frozen=True):
    """Timeouts of calls, and intervals between repeats."""

    deadline_seconds: float = 5.0
    first_retry_seconds: float = 0.05
    longest_retry_seconds: float = 1.0


class NodeLost(Unavailable):
    """The called node is lost. `perhaps`: the call may have taken effect there."""

    def __init__(self, node: str, perhaps: bool) -> None:
        end = "was lost before it answered"
        super().__init__(f"the channel's owner {end}", f"node {node!r} {end}")
        self.perhaps = perhaps


class _Peer:
    """Another node as the target of requests."""

    __slots__ = ("former", "incarnation", "lanes", "node", "round_trip")

    def __init__(self, node: str) -> None:
        self.node = node
        self.incarnation = ""
        self.former: deque[str] = deque(maxlen=REMEMBERED_INCARNATIONS)
        self.lanes: dict[int, SendingLane] = {}
        self.round_trip = 0.0
        """Recent round trip in seconds, of calls that are answered immediately."""

    def answered(self, pending: Pending, now: float) -> None:
        """Updates the round trip: quickly upwards, slowly downwards, since repeating too early only
        adds load to a busy node."""
        if pending.sent_at is not None and not _may_wait(pending.call):
            taken = now - pending.sent_at
            self.round_trip = max(taken, _FORGETS * self.round_trip + (1 - _FORGETS) * taken)


class Requests:
    """The sending ends of all lanes of one node."""

    def __init__(
        self, node: str, incarnation: str, transport: Transport, patience: Patience
    ) -> None:
        self._node = node
        self._incarnation = incarnation
        self._transport = transport
        self._patience = patience
        self._peers: dict[str, _Peer] = {}
        self._closed = False
        self._out_of_reach_since: float | None = None

    def close(self) -> None:
        """Answers waiting callers with an error."""
        self._closed = True
        error = Unavailable("this node leaves the cluster")
        for peer in self._peers.values():
            for lane in peer.lanes.values():
                for pending in [*lane.under_way.values(), *lane.waiting]:
                    self._conclude(pending, None, error)

    async def ask(
        self, node: str, lane: int, call: Call, kind: Any, seconds: float | None = None
    ) -> Any:
        """The response to a call, of this type. Raises the other node's `HubbubError`, or
        `Unavailable`."""
        deadline = None if seconds is None else asyncio.get_running_loop().time() + seconds
        answered, conclude = awaited()
        self.send(node, lane, call, kind, conclude, deadline)
        return await answered

    def set_reach(self, in_reach: bool) -> None:
        """Sets whether other nodes can be heard at all. Short outages are waited out."""
        since = asyncio.get_running_loop().time()
        self._out_of_reach_since = None if in_reach else since

    @property
    def _out_of_reach(self) -> bool:
        since = self._out_of_reach_since
        return since is not None and asyncio.get_running_loop().time() - since > OUTAGE_SECONDS

    def busy(self, lane_id: int) -> bool:
        """Whether a call of this lane is still unanswered."""
        lanes = (peer.lanes.get(lane_id) for peer in self._peers.values())
        return any(lane is not None and (lane.under_way or lane.waiting) for lane in lanes)

    def lose(self, node: str) -> None:
        """The node is lost: its waiting callers are told. A later node with that name must
        introduce itself, so that nothing is sent to a closed incarnation."""
        peer = self._peers.get(node)
        if peer is None:
            return
        peer.incarnation = ""
        for lane in list(peer.lanes.values()):
            for pending in [*lane.under_way.values(), *lane.waiting]:
                error = NodeLost(node, pending.sent)
                self._conclude(pending, None, error)

    def send(
        self,
        node: str,
        lane_id: int,
        call: Call,
        kind: Any,
        conclude: Conclude,
        deadline: float | None = None,
    ) -> None:
        if self._closed:
            conclude(None, Unavailable("this node leaves the cluster"))
            return
        if self._out_of_reach:
            conclude(None, _cut_off(node))
            return
        peer = self._peers.get(node)
        if peer is None:
            peer = self._peers[node] = _Peer(node)
        lane = peer.lanes.get(lane_id)
        if lane is None:
            lane = peer.lanes[lane_id] = SendingLane(node, lane_id)
        if deadline is None:
            deadline = asyncio.get_running_loop().time() + self._patience.deadline_seconds
        lane.add(Pending(lane, call, kind, conclude, deadline))
        self._start(peer, lane)

    def _start(self, peer: _Peer, lane: SendingLane) -> None:
        for pending in lane.start():
            patience = self._patience
            delay = max(patience.first_retry_seconds, 2 * peer.round_trip)
            pending.delay = min(delay, patience.longest_retry_seconds)
            self._send(peer, pending)

    def _send(self, peer: _Peer, pending: Pending) -> None:
        """Sends the call, for the first time or again, and schedules the next check."""
        loop = asyncio.get_running_loop()
        pending.sent_at = None if pending.timer is not None else loop.time()
        pending.sent = pending.sent or bool(peer.incarnation)
        lane = pending.lane
        request = LaneRequest(
            self._node,
            self._incarnation,
            peer.incarnation,
            lane.id,
            pending.number,
            lane.floor,
            pending.call,
            pending.since,
        )
        self._transport.send(peer.node, datagrams.encode(request))
        self._look_later(peer, pending)

    def _look_later(self, peer: _Peer, pending: Pending) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        delay = min(pending.delay, max(pending.deadline - now, 0.0))
        pending.delay = min(pending.delay * 2, self._patience.longest_retry_seconds)
        if pending.timer is not None:
            pending.timer.cancel()
        # Kept beside the timer: uvloop's handle of a delay under a millisecond has no `when`.
        pending.due_at = now + delay
        pending.timer = loop.call_later(delay, self._look_after, peer, pending)

    def _look_after(self, peer: _Peer, pending: Pending) -> None:
        now = asyncio.get_running_loop().time()
        if self._out_of_reach:
            self._conclude(pending, None, _cut_off(peer.node))
        elif now < pending.deadline:
            if now - pending.due_at > pending.delay / 8:
                self._look_later(peer, pending)  # this process is late: the answer may be here
            else:
                self._send(peer, pending)
        else:
            self._conclude(pending, None, _silent(peer.node, "does not answer"))

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
        """Calls that wait for the window have no timers; those at the front are the oldest."""
        now = asyncio.get_running_loop().time()
        while lane.waiting and lane.waiting[0].deadline <= now:
            pending = lane.waiting.popleft()
            pending.conclude(None, _silent(lane.node, "answers too slowly"))

    # -- answers --------------------------------------------------------------------------------

    def receive_reply(self, reply: Reply) -> None:
        peer = self._peers.get(reply.sender)
        lane = peer.lanes.get(reply.lane) if peer is not None else None
        pending = lane.under_way.get(reply.number) if lane is not None else None
        if pending is None or peer is None or peer.incarnation != reply.incarnation:
            return
        peer.answered(pending, asyncio.get_running_loop().time())
        if reply.error is not None:
            self._conclude(pending, None, reply.error)
            return
        try:
            value = datagrams.decode_value(reply.value, pending.kind)
        except msgspec.MsgspecError as error:
            self._conclude(pending, None, Internal(UNREADABLE, f"{UNREADABLE}: {error}"))
            return
        self._conclude(pending, value, None)

    def introduce(self, node: str, incarnation: str) -> None:
        """The incarnation behind a node's name was learned from its traffic, without asking for
        it."""
        peer = self._peers.get(node)
        if peer is None:
            peer = self._peers[node] = _Peer(node)
        if not peer.incarnation and incarnation not in peer.former:
            peer.incarnation = incarnation
            self._send_unsent(peer)

    def _send_unsent(self, peer: _Peer) -> None:
        for lane in list(peer.lanes.values()):
            for pending in [each for each in lane.under_way.values() if not each.sent]:
                self._send(peer, pending)

    def meet(self, stranger: Stranger) -> None:
        """The node has another incarnation than assumed: calls sent to the former one may have
        taken effect, and fail; the others go to the new one."""
        peer = self._peers.get(stranger.sender)
        if peer is None or stranger.incarnation in (peer.incarnation, *peer.former):
            return
        if peer.incarnation:
            peer.former.append(peer.incarnation)
        peer.incarnation = stranger.incarnation
        error = NodeLost(peer.node, perhaps=True)
        for lane in list(peer.lanes.values()):
            for pending in [each for each in lane.under_way.values() if each.sent]:
                self._conclude(pending, None, error)
        self._send_unsent(peer)


def _may_wait(call: Call) -> bool:
    """Whether the response may be delayed until there is something to report."""
    return isinstance(call, NodeRequest) or (isinstance(call, OwnerRequest) and call.may_wait)


def _cut_off(node: str) -> Unavailable:
    return Unavailable(
        "the channel's owner is out of reach; try again",
        f"node {node!r} is out of reach: this node has lost the connection to NATS; try again",
    )


def _silent(node: str, what: str) -> Unavailable:
    return Unavailable(f"the channel's owner {what}; try again", f"node {node!r} {what}")
