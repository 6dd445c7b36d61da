"""Deliveries on their way: a queue for each (peer, address), driven while there is something in
it, by the attempts that webhooks use too."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import NoReturn

from hubbub.domain.communication.following import subscription_of
from hubbub.domain.communication.messages import PeerMessage
from hubbub.domain.communication.peers import Address, PeerInfo
from hubbub.domain.communication.privacy import is_taken
from hubbub.domain.communication.steps import DeliveryRow
from hubbub.domain.errors import HubbubError
from hubbub.engine.communication.instances import Instances, one_line
from hubbub.engine.communication.journalling import CommunicationJournal
from hubbub.engine.communication.knowledge import PeerKnowledge
from hubbub.engine.communication.planning import NO_ADAPTER, PRIVACY, copy_for
from hubbub.engine.outgoing import Destination, OutgoingGate
from hubbub.engine.outward.attempts import (
    Attempted,
    Ended,
    Expired,
    OutwardAttempts,
    Shipment,
    Stopped,
)
from hubbub.engine.outward.retrying import GivenUp
from hubbub.ports.adapters import AdapterFailed, Delivery, OutputAdapter, TemporaryFailure
from hubbub.ports.clock import Clock
from hubbub.tasks import is_cancelled

NOT_SUBSCRIBED = "the peer subscription ended"
_IN_A_TURN = 50
"""Deliveries of one queue."""
LaneKey = tuple[str, str, tuple[str, ...]]
"""Peer, adapter, and the parameters of the address."""


@dataclass(slots=True, eq=False)
class Parcel:
    """One copy of a message, waiting or under way."""

    row: DeliveryRow
    message: PeerMessage
    deadline: float = math.inf
    """Seconds since 1970."""
    policy: str = ""
    """Of the peer, for the journal."""
    durable: bool = True
    cancelled: bool = False


@dataclass(slots=True, eq=False)
class Lane:
    """In order."""

    queue: deque[Parcel] = field(default_factory=deque)
    task: asyncio.Task[None] | None = None


class Lanes:
    """All queues of one hub at the owner of its log."""

    def __init__(
        self,
        hub: str,
        gate: OutgoingGate,
        attempts: OutwardAttempts,
        instances: Instances,
        knowledge: PeerKnowledge,
        clock: Clock,
        journal: CommunicationJournal,
        done: Callable[[Parcel, str | None], None],
        holds: Callable[[str], Awaitable[bool]],
    ) -> None:
        """`done(parcel, reason)` hears of every outcome; None: it arrived. `holds` says whether a
        peer subscription is still there and may read its channel."""
        self.hub = hub
        self.gate = gate
        self.instances = instances
        self.knowledge = knowledge
        self.clock = clock
        self.journal = journal
        self.waiting = 0
        self.holds = holds
        self._attempts = attempts
        self._done = done
        self._lanes: dict[LaneKey, Lane] = {}
        self._stopped = False

    def put(self, parcel: Parcel) -> None:
        row = parcel.row
        key = (row.peer, row.adapter, row.parameters)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane()
        lane.queue.append(parcel)
        self.waiting += 1
        self.instances.figures_of(row.adapter).waiting += 1
        if lane.task is None and not self._stopped:
            lane.task = asyncio.get_running_loop().create_task(self._drive(key, lane))

    def cancel(self, peer: str) -> None:
        """Nothing that waits for the peer goes out."""
        for (of_peer, _, _), lane in self._lanes.items():
            if of_peer == peer:
                for parcel in lane.queue:
                    parcel.cancelled = True

    async def _drive(self, key: LaneKey, lane: Lane) -> None:
        turns = 0
        try:
            while lane.queue and not self._stopped:
                turns += 1
                if turns % _IN_A_TURN == 0:
                    await asyncio.sleep(0)  # an adapter that never waits must not hold up the loop
                parcel = lane.queue[0]
                try:
                    reason = await self._deliver(parcel)
                except Stopped:
                    return
                lane.queue.popleft()
                self._count_down(key[1])
                self._done(parcel, reason)
        finally:
            lane.task = None
            if not lane.queue:
                self._lanes.pop(key, None)

    def _count_down(self, adapter: str) -> None:
        self.waiting -= 1
        figures = self.instances.figures_of(adapter)
        figures.waiting -= 1
        if not figures.waiting:
            self.instances.drained(adapter)

    async def _deliver(self, parcel: Parcel) -> str | None:
        """The reason why it failed for good, or None. Raises `Stopped`."""
        if parcel.cancelled:
            return None
        shipment = ParcelShipment(self, parcel)
        try:
            await self._attempts.deliver(shipment, None)
        except GivenUp:
            return shipment.last_error or "too many attempts"
        except Expired:
            parcel.cancelled = True  # its time-out is told by who keeps the deadline
        except Ended as ended:
            return str(ended)
        return None

    @property
    def is_stopped(self) -> bool:
        return self._stopped

    async def stop(self, seconds: float) -> None:
        """Let what is under way end, within a bound."""
        self._stopped = True
        tasks = [lane.task for lane in self._lanes.values() if lane.task is not None]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


class ParcelShipment(Shipment):
    """A copy of a message on its way through an adapter."""

    __slots__ = ("_address", "_destination", "_lanes", "_parcel", "last_error")

    def __init__(self, lanes: Lanes, parcel: Parcel) -> None:
        super().__init__()
        row = parcel.row
        self._lanes = lanes
        self._parcel = parcel
        self._address = Address(row.adapter, row.parameters)
        output = lanes.instances.find(row.adapter)
        most = output.settings.max_parallel if output is not None else None
        self._destination = lanes.gate.destination(lanes.hub, "delivery", row.adapter, most)
        self.last_error = ""

    @property
    def destination(self) -> Destination:
        return self._destination

    @property
    def is_stopped(self) -> bool:
        return self._lanes.is_stopped

    def lifetime(self) -> float:
        if self._parcel.cancelled:
            return 0.0
        deadline = self._parcel.deadline
        return deadline if deadline == math.inf else deadline - self._lanes.clock.now()

    def note(self, attempts: int, next_try_at: int | None) -> None:
        """Nobody asks."""

    async def pause(self, seconds: float) -> None:
        """Other settings of the adapter may be better: they are tried at once."""
        await self._lanes.instances.changed(self._parcel.row.adapter, seconds)

    async def attempt(self, number: int) -> Attempted:
        lanes, row = self._lanes, self._parcel.row
        started = lanes.clock.monotonic()
        if lanes.instances.find(row.adapter) is None:
            problem = lanes.instances.problem(row.adapter)
            if problem is None:
                self._give_up(number, started, NO_ADAPTER, "no_adapter")
            self._failed(number, started, problem, "retry")  # what waits, waits for better settings
            return Attempted(False)
        try:
            refused = await self._refusal()
        except HubbubError as error:  # the store is away
            self._failed(number, started, error.message, "retry")
            return Attempted(False)
        if refused is not None:
            self._give_up(number, started, *refused)
        output = lanes.instances.find(row.adapter)
        if output is None:  # it was replaced meanwhile
            return Attempted(False)
        try:
            async with asyncio.timeout(output.kind.timeout_seconds):
                await output.use(row.peer, self._address, self._push)
        except TemporaryFailure as failure:
            self._failed(number, started, str(failure), "retry")
            return Attempted(False, retry_after_seconds=failure.retry_after_seconds)
        except TimeoutError:
            self._failed(number, started, "the adapter took too long", "timeout")
            return Attempted(False)
        except AdapterFailed as failure:
            self._give_up(number, started, str(failure) or "the adapter failed", "failed")
        except (Exception, asyncio.CancelledError, SystemExit) as error:  # code of others
            if is_cancelled():
                raise
            self._give_up(number, started, f"the adapter failed: {error!r}", "error")
        output.figures.note(None, lanes.clock.now())
        self._tell(number, started, "ok")
        return Attempted(True, well=True)

    async def _push(self, adapter: OutputAdapter) -> None:
        row = self._parcel.row
        copy = copy_for(self._parcel.message, row)
        await adapter.push(Delivery(self._lanes.hub, copy, row.peer, self._address, row.key))

    async def _refusal(self) -> tuple[str, str] | None:
        """Queues delay: why the message may not go out any more, as a sentence and as a word."""
        subscription = subscription_of(self._parcel.row.message_id)
        if subscription is not None and not await self._lanes.holds(subscription):
            return NOT_SUBSCRIBED, "ended"
        return None if await self._is_taken() else (PRIVACY, "privacy")

    async def _is_taken(self) -> bool:
        """The peer may have changed its mind meanwhile."""
        row = self._parcel.row
        if not row.peer:
            return True
        info = self._lanes.knowledge.cached(row.peer) or await self._lanes.knowledge.peer(row.peer)
        if not isinstance(info, PeerInfo):
            return True  # the adapter and the address are known; nobody refused the message
        return is_taken(info, self._parcel.message, self._lanes.clock.now())

    def _give_up(self, number: int, started: float, reason: str, outcome: str) -> NoReturn:
        self._failed(number, started, reason, outcome)
        raise GivenUp

    def _failed(self, number: int, started: float, reason: str, outcome: str) -> None:
        self.last_error = one_line(reason)
        figures = self._lanes.instances.figures_of(self._parcel.row.adapter)
        figures.note(self.last_error, self._lanes.clock.now())
        self._tell(number, started, outcome)

    def _tell(self, number: int, started: float, outcome: str) -> None:
        parcel, reason = self._parcel, "" if outcome == "ok" else self.last_error
        self._lanes.journal.attempt(
            parcel.message, parcel.row, parcel.policy, number, started, outcome, reason
        )
