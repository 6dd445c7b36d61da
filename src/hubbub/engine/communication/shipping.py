"""Deliveries in progress: a queue per (peer, address), processed while it is not empty, with the
same retries as webhooks."""

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
from hubbub.engine.outward.attempts import (
    Attempted,
    Expired,
    OutwardAttempts,
    ReceiverEnded,
    Shipment,
    Stopped,
)
from hubbub.engine.outward.gate import Destination, OutgoingGate
from hubbub.engine.outward.retrying import GivenUp
from hubbub.ports.adapters import AdapterFailed, Delivery, OutputAdapter, TemporaryFailure
from hubbub.ports.clock import Clock
from hubbub.tasks import is_cancelled

NOT_SUBSCRIBED = "the peer subscription ended"
_IN_A_TURN = 50
"""Deliveries of one queue before other tasks of the loop run."""
AddressKey = tuple[str, str, tuple[str, ...]]
"""Peer, adapter, and the parameters of the address."""


@dataclass(slots=True, eq=False)
class QueuedDelivery:
    """A delivery that waits or is being attempted."""

    row: DeliveryRow
    message: PeerMessage
    deadline: float = math.inf
    """In seconds since 1970."""
    policy: str = ""
    """The peer's policy, for the journal."""
    durable: bool = True
    cancelled: bool = False


@dataclass(slots=True, eq=False)
class AddressQueue:
    """Deliveries to one address, in order."""

    deliveries: deque[QueuedDelivery] = field(default_factory=deque)
    task: asyncio.Task[None] | None = None


class AddressQueues:
    """All delivery queues of one hub at the owner of its log."""

    def __init__(
        self,
        hub: str,
        gate: OutgoingGate,
        attempts: OutwardAttempts,
        instances: Instances,
        knowledge: PeerKnowledge,
        clock: Clock,
        journal: CommunicationJournal,
        done: Callable[[QueuedDelivery, str | None], None],
        holds: Callable[[str], Awaitable[bool]],
    ) -> None:
        """`done(queued, reason)` is called for every outcome; a reason of None means success.
        `holds` says whether a peer subscription still exists and may read its channel."""
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
        self._queues: dict[AddressKey, AddressQueue] = {}
        self._stopped = False

    def put(self, queued: QueuedDelivery) -> None:
        row = queued.row
        key = (row.peer, row.adapter, row.parameters)
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = AddressQueue()
        queue.deliveries.append(queued)
        self.waiting += 1
        self.instances.figures_of(row.adapter).waiting += 1
        if queue.task is None and not self._stopped:
            queue.task = asyncio.get_running_loop().create_task(self._drive(key, queue))

    def cancel(self, peer: str) -> None:
        """Cancels the queued deliveries to a peer."""
        for (of_peer, _, _), queue in self._queues.items():
            if of_peer == peer:
                for queued in queue.deliveries:
                    queued.cancelled = True

    async def _drive(self, key: AddressKey, queue: AddressQueue) -> None:
        turns = 0
        try:
            while queue.deliveries and not self._stopped:
                turns += 1
                if turns % _IN_A_TURN == 0:
                    await asyncio.sleep(0)  # an adapter that never waits must not hold up the loop
                queued = queue.deliveries[0]
                try:
                    reason = await self._deliver(queued)
                except Stopped:
                    return
                queue.deliveries.popleft()
                self._count_down(key[1])
                self._done(queued, reason)
        finally:
            queue.task = None
            if not queue.deliveries:
                self._queues.pop(key, None)

    def _count_down(self, adapter: str) -> None:
        self.waiting -= 1
        figures = self.instances.figures_of(adapter)
        figures.waiting -= 1
        if not figures.waiting:
            self.instances.drained(adapter)

    async def _deliver(self, queued: QueuedDelivery) -> str | None:
        """Returns the reason of a permanent failure, or None. Raises `Stopped`."""
        if queued.cancelled:
            return None
        shipment = PeerShipment(self, queued)
        try:
            await self._attempts.deliver(shipment, None)
        except GivenUp:
            return shipment.last_error or "too many attempts"
        except Expired:
            queued.cancelled = True  # its time-out is told by who keeps the deadline
        except ReceiverEnded as ended:
            return str(ended)
        return None

    @property
    def is_stopped(self) -> bool:
        return self._stopped

    async def stop(self, seconds: float) -> None:
        """Waits, within a bound, for deliveries in progress."""
        self._stopped = True
        tasks = [queue.task for queue in self._queues.values() if queue.task is not None]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


class PeerShipment(Shipment):
    """A delivery as a series of attempts through an adapter."""

    __slots__ = ("_address", "_destination", "_queued", "_queues", "last_error")

    def __init__(self, queues: AddressQueues, queued: QueuedDelivery) -> None:
        super().__init__()
        row = queued.row
        self._queues = queues
        self._queued = queued
        self._address = Address(row.adapter, row.parameters)
        output = queues.instances.find(row.adapter)
        most = output.settings.max_parallel if output is not None else None
        self._destination = queues.gate.destination(queues.hub, "delivery", row.adapter, most)
        self.last_error = ""

    @property
    def destination(self) -> Destination:
        return self._destination

    @property
    def is_stopped(self) -> bool:
        return self._queues.is_stopped

    def lifetime(self) -> float:
        if self._queued.cancelled:
            return 0.0
        deadline = self._queued.deadline
        return deadline if deadline == math.inf else deadline - self._queues.clock.now()

    def note(self, attempts: int, next_try_at: int | None) -> None:
        """Attempts of deliveries are not shown anywhere."""

    async def pause(self, seconds: float) -> None:
        """Ends early if the adapter's settings change: the new ones are tried immediately."""
        await self._queues.instances.changed(self._queued.row.adapter, seconds)

    async def attempt(self, number: int) -> Attempted:
        queues, row = self._queues, self._queued.row
        started = queues.clock.monotonic()
        if queues.instances.find(row.adapter) is None:
            problem = queues.instances.problem(row.adapter)
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
        output = queues.instances.find(row.adapter)
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
        output.figures.note(None, queues.clock.now())
        self._tell(number, started, "ok")
        return Attempted(True, well=True)

    async def _push(self, adapter: OutputAdapter) -> None:
        row = self._queued.row
        copy = copy_for(self._queued.message, row)
        await adapter.push(Delivery(self._queues.hub, copy, row.peer, self._address, row.key))

    async def _refusal(self) -> tuple[str, str] | None:
        """Why the message may no longer be sent, as (sentence, outcome): subscriptions and privacy
        policies may have changed while it was queued."""
        subscription = subscription_of(self._queued.row.message_id)
        if subscription is not None and not await self._queues.holds(subscription):
            return NOT_SUBSCRIBED, "ended"
        return None if await self._is_taken() else (PRIVACY, "privacy")

    async def _is_taken(self) -> bool:
        """Whether the peer's current privacy policy accepts the message."""
        row = self._queued.row
        if not row.peer:
            return True
        info = self._queues.knowledge.cached(row.peer) or await self._queues.knowledge.peer(
            row.peer
        )
        if not isinstance(info, PeerInfo):
            return True  # the adapter and the address are known; nobody refused the message
        return is_taken(info, self._queued.message, self._queues.clock.now())

    def _give_up(self, number: int, started: float, reason: str, outcome: str) -> NoReturn:
        self._failed(number, started, reason, outcome)
        raise GivenUp

    def _failed(self, number: int, started: float, reason: str, outcome: str) -> None:
        self.last_error = one_line(reason)
        figures = self._queues.instances.figures_of(self._queued.row.adapter)
        figures.note(self.last_error, self._queues.clock.now())
        self._tell(number, started, outcome)

    def _tell(self, number: int, started: float, outcome: str) -> None:
        queued, reason = self._queued, "" if outcome == "ok" else self.last_error
        self._queues.journal.attempt(
            queued.message, queued.row, queued.policy, number, started, outcome, reason
        )
