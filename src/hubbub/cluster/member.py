"""A cluster member: lets one node take part in the cluster, from its first heartbeat to its last.

It sends and receives heartbeats, and applies the ring that follows from them. Everything runs on
the event loop's thread."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Protocol

import msgspec

from hubbub.cluster.membership import (
    HEARTBEAT_SECONDS,
    REMEMBERED_NODES,
    Heartbeat,
    Membership,
)
from hubbub.cluster.ownership import Ownership
from hubbub.cluster.remote import RemoteBus
from hubbub.domain.errors import Unavailable
from hubbub.domain.names import PARTITIONS
from hubbub.engine.channels.owner import ChannelOwner
from hubbub.ports.bus import FeedSink
from hubbub.ports.quota_exchange import REPORT_SECONDS, QuotaExchange
from hubbub.tasks import TaskSet

logger = logging.getLogger(__name__)

LISTEN_SECONDS = 0.25
"""How long a starting node listens for others before it takes part."""
HAND_OVER_SECONDS = 5.0
NEWS_SECONDS = 1.0

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Heartbeat).decode


class Broadcast(Protocol):
    """Sends to and receives from all nodes; messages may be lost."""

    def say_to_all(self, data: bytes) -> None: ...

    def listen_to_all(
        self, hear: Callable[[str, bytes], None], alive: Callable[[str, str], None]
    ) -> None:
        """Calls `hear` with each message and its sender, this node included, and `alive` with the
        name and incarnation of each node from which anything arrives."""


class ClusterMember:
    """Connects membership, ring, bus and the node."""

    def __init__(
        self,
        membership: Membership,
        ownership: Ownership,
        bus: RemoteBus,
        owner: ChannelOwner,
        sink: FeedSink,
        broadcast: Broadcast,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
        quotas: QuotaExchange | None = None,
    ) -> None:
        """`quotas` None: this node does not share quotas."""
        self._quotas = quotas
        self._next_report = 0.0
        self.membership = membership
        self.ownership = ownership
        self._bus = bus
        self._owner = owner
        self._sink = sink
        self._broadcast = broadcast
        self._heartbeat_seconds = heartbeat_seconds
        self._beating: asyncio.TimerHandle | None = None
        self._last_beat = 0.0
        self._last_news = 0.0
        self._afresh = False
        self._looking = False
        self._forgotten: dict[str, None] = {}
        """Lost nodes whose followed channels were dropped here."""
        self._namesakes: set[str] = set()
        self._unheard_since: float | None = None
        self._heard_since = 0.0
        self._tasks = TaskSet()
        self._closed = False
        self.takes_part = False
        """Whether this node ever belonged to a cluster that serves channels."""
        self._progress = asyncio.Event()
        membership.listen(self)
        ownership.connect(owner, self)

    # -- coming and going -----------------------------------------------------------------------

    async def join(self) -> None:
        """Joins the cluster; after this, the node serves its part of the ring. Raises `Unavailable`
        if its name is taken."""
        loop = asyncio.get_running_loop()
        self._bus.muted = True
        self._broadcast.listen_to_all(self._hear, self._alive)
        self._last_beat = self._last_news = loop.time()
        self._say(asks=True)
        self._beating = loop.call_later(self._heartbeat_seconds, self._beat)
        await asyncio.sleep(LISTEN_SECONDS)
        if self._namesakes:
            raise Unavailable(
                f"another node of the cluster is called {self.membership.node!r}, too; give every "
                "node a name of its own (cluster.node)"
            )
        self._bus.muted = False
        await self._owner.join()
        self.membership.state = "serving"
        self._note("taking part")
        self._say()
        self.members_changed()
        await self._until(self._in_effect)

    async def leave(self) -> None:
        """Waits until other nodes have taken over this node's partitions. Its sessions continue. A
        node that never served owns nothing."""
        if self.membership.state != "serving":
            return
        self.membership.state = "leaving"
        self._say()
        self.members_changed()
        await self._until(self._handed_over)

    def announce_pause(self, begins: bool) -> None:
        """Announces that this process will pause, so that its silence is excused. All heartbeats
        until the end of the pause say so, since the last one counts."""
        self.membership.pauses = begins
        self._say()

    async def close(self) -> None:
        """Sends a leave message and stops."""
        self._closed = True
        self.membership.state = "gone"
        self._say()
        if self._beating is not None:
            self._beating.cancel()
        await self._tasks.end()
        await self.ownership.close()

    async def _until(self, condition: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(HAND_OVER_SECONDS):
                while not condition():
                    self._progress.clear()
                    await self._progress.wait()
        except TimeoutError:
            logger.warning("the cluster has not settled yet; continuing")

    def _in_effect(self) -> bool:
        membership, ring = self.membership, self.ownership.ring
        counts = membership.role == "edge" or membership.node in ring.owners
        return counts and membership.ring_version == ring.version

    def _handed_over(self) -> bool:
        """Whether all new owners serve their partitions."""
        version = self.membership.ring().version
        core = [beat for beat in self.membership.beats[1:] if beat.role == "core"]
        serving = [beat for beat in core if beat.state == "serving"]
        return all(beat.ring == version for beat in serving)

    # -- heartbeats -----------------------------------------------------------------------------

    def _beat(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        if now - self._last_beat > self.membership.silence_seconds / 2:
            self.membership.excuse_all(now)  # this process stood still
        self._last_beat = now
        self._say()
        self._notice_deafness(now)
        self.membership.look(now)
        if now - self._last_news >= NEWS_SECONDS:
            self._last_news = now
            self._owner.announce_news()
        self._beating = loop.call_later(self._heartbeat_seconds, self._beat)

    def _notice_deafness(self, now: float) -> None:
        """A node that received nothing for longer than the timeout of the others may have been
        given up by them, and may have missed their messages."""
        if self.membership.is_deaf(now):
            if self._unheard_since is None:
                self._unheard_since = now
                self.membership.stalled = True
                self._bus.requests.set_reach(False)
                logger.warning("no heartbeat arrives from the cluster, not even this node's own")
            return
        if self._unheard_since is not None:
            away = now - self._unheard_since
            self._unheard_since = None
            self._bus.requests.set_reach(True)
            self.membership.excuse_all(now)
            logger.info("the cluster is heard again after %.1f seconds", away)
            self._heard_since = now
            if away > self.membership.silence_seconds / 2:
                self._tasks.start(self._find_out_losses())
            self._sink.owners_changed(range(PARTITIONS))
        elif now - self._heard_since > self.membership.silence_seconds:
            self.membership.stalled = False

    async def _find_out_losses(self) -> None:
        """If no node could hear any other, none took anything over, and all continue. A node that
        gave this one up without having taken over says so in its heartbeats."""
        if not await self.ownership.is_untouched():
            self.membership.begin_anew()

    @property
    def is_deaf(self) -> bool:
        """Whether the cluster is unreachable now."""
        return self._unheard_since is not None

    def _say(self, asks: bool = False) -> None:
        beat = self.membership.beat(asks)
        if self._unheard_since is not None and self.membership.may_be_given_up(self._last_beat):
            # Others own its channels by now: it must not be asked before it has begun anew.
            beat = msgspec.structs.replace(beat, state="starting")
        if self._quotas is not None and self._last_beat >= self._next_report:
            self._next_report = self._last_beat + REPORT_SECONDS
            beat = msgspec.structs.replace(beat, shares=self._quotas.report())
        self._broadcast.say_to_all(_encode(beat))

    def _hear(self, sender: str, data: bytes) -> None:
        try:
            beat = _decode(data)
        except msgspec.MsgspecError as error:
            logger.warning("ignored a heartbeat of node %s: %s", sender, error)
            return
        if beat.node != sender or self._closed:
            return
        if beat.node == self.membership.node and beat.incarnation != self.membership.incarnation:
            self._meet_namesake(beat)
            return
        self.membership.hear(beat, asyncio.get_running_loop().time())
        self._hear_shares(beat)
        if beat.asks and sender != self.membership.node:
            self._next_report = 0.0
            self._say()
        self._progress.set()

    def _hear_shares(self, beat: Heartbeat) -> None:
        """Quota shares of current members; others are dropped."""
        known = beat.node != self.membership.node and beat.node in self.membership.nodes
        if self._quotas is not None and beat.shares is not None and known:
            self._quotas.hear(beat.node, beat.shares)

    def _alive(self, node: str, incarnation: str) -> None:
        self.membership.sign_of_life(node, incarnation, asyncio.get_running_loop().time())

    def _meet_namesake(self, beat: Heartbeat) -> None:
        if beat.state not in ("gone", "starting") and beat.incarnation not in self._namesakes:
            self._namesakes.add(beat.incarnation)
            logger.error("another node is called %r, too, at %r", beat.node, beat.address)

    # -- what follows ---------------------------------------------------------------------------

    def members_changed(self) -> None:
        """Handled once per turn of the event loop, whatever number of heartbeats arrived."""
        if not self._looking:
            self._looking = True
            asyncio.get_running_loop().call_soon(self._look_at_ring)

    def _look_at_ring(self) -> None:
        self._looking = False
        afresh, self._afresh = self._afresh, False
        ring = self.membership.ring()
        if afresh or ring.version != self.ownership.ring.version:
            nodes = [beat.node for beat in self.membership.beats if beat.state == "serving"]
            self._note("the ring is another one", ring=ring.version, nodes=sorted(nodes))
            for beat in self.membership.beats[1:]:
                self._bus.requests.introduce(beat.node, beat.incarnation)
            self.ownership.follow(ring, self.membership.lives(), afresh)
            self._say()
            for node in self._forgotten.keys() - self.membership.nodes:
                # It may have been called since, while the ring still named it.
                self._bus.requests.lose(node)
        else:
            # Somebody may be about to serve. To match the partitions takes milliseconds, and is
            # remembered: so the ring is there at once when they do.
            self.membership.ring("starting")
        self._remind()
        self._progress.set()

    def _remind(self) -> None:
        """A node that was lost and is heard again may not have noticed: it must send its followed
        channels again, since they were dropped here."""
        back = [node for node in self.membership.nodes if node in self._forgotten]
        if back:
            for node in back:
                del self._forgotten[node]
            own = self.ownership.ring.partitions_of(self.membership.node)
            self._bus.ask_to_renew(own, back)

    def node_lost(self, node: str, expected: bool) -> None:
        level = logging.INFO if expected else logging.WARNING
        self._note("a node is gone", level, node=node)
        self._bus.requests.lose(node)
        self._owner.attendance.lose_node(node)
        if self._quotas is not None:
            self._quotas.lose(node)
        self._forgotten[node] = None
        if len(self._forgotten) > REMEMBERED_NODES:
            del self._forgotten[next(iter(self._forgotten))]

    def given_up(self) -> None:
        logger.warning("the other nodes have given this node up; it joins again")
        self._afresh = True

    def owners_changed(self, partitions: Collection[int]) -> None:
        self._bus.owners_changed()
        if partitions:
            self._sink.owners_changed(frozenset(partitions))

    def partitions_regained(self, partitions: Collection[int]) -> None:
        self._bus.ask_to_renew(partitions)

    def ring_effective(self, version: str) -> None:
        if version != self.membership.ring_version:
            self._note("the ring is in effect here", ring=version)
        self.membership.ring_version = version
        served = any(self.ownership.ring.owners) and self._in_effect()
        self.takes_part = self.takes_part or served
        if not self._closed:
            self._say()
        self._progress.set()

    @staticmethod
    def _note(what: str, level: int = logging.INFO, **fields: object) -> None:
        """Logs with a time that is comparable between the processes of one machine."""
        fields["monotonic"] = asyncio.get_running_loop().time()
        logger.log(level, what, extra={"fields": fields}, stacklevel=2)
