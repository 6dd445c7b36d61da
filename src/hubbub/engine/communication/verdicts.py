"""Verdicts of open messages: counts the outcomes of deliveries and gives each receiver one
verdict."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from hubbub.domain.communication.control import VERDICT_SUFFIX, report_on
from hubbub.domain.communication.messages import (
    PeerMessage,
    awaits_reply,
    digest,
    may_reply,
)
from hubbub.domain.communication.policies import DeliveryVerdict
from hubbub.domain.communication.steps import (
    ARRIVED,
    DUE,
    FAILED,
    WAITING,
    CommunicationStep,
    DeliveryMove,
    DeliveryRow,
)
from hubbub.engine.communication.committing import Committer
from hubbub.engine.communication.journalling import CommunicationJournal
from hubbub.engine.communication.planning import PlannedReceiver, ReceiverProgress
from hubbub.engine.communication.shipping import AddressQueues, QueuedDelivery
from hubbub.engine.communication.waiting import Waiters
from hubbub.ports.clock import Clock
from hubbub.tasks import TaskSet

TIMED_OUT = "the time to live is over"
HELD_TOO_LONG = "its sender did not log in before its time was over"
MET = DeliveryVerdict("met")
ERASED = DeliveryVerdict("failed", "a peer was erased", tried=False)
LastLook = Callable[[PeerMessage], asyncio.Future[None] | None]


@dataclass(slots=True, eq=False)
class OpenMessage:
    """A message without a final verdict."""

    message: PeerMessage
    arrived_at: float
    """In seconds since 1970. The message's time to live starts here, even while it waits to
    start."""
    durable: bool = True
    receivers: dict[str, ReceiverProgress] = field(default_factory=dict)
    queued_deliveries: list[QueuedDelivery] = field(default_factory=list)
    done_keys: list[str] = field(default_factory=list)
    """Deliveries that are stored together with the verdict."""
    unanswered: bool = False
    """The message awaits a reply that has not arrived."""
    met: dict[str, DeliveryVerdict] = field(default_factory=dict)
    """Positive verdicts that wait for the reply."""
    waiting: dict[str, DeliveryRow] = field(default_factory=dict)
    """Deliveries whose turn has not come, by key."""
    timer: asyncio.TimerHandle | None = None
    turn_timer: asyncio.TimerHandle | None = None
    loaded: bool = False
    """The message was open before this node became the owner of the log."""

    def expect(self, planned: Iterable[PlannedReceiver], rows: Iterable[DeliveryRow]) -> None:
        """Starts counting the outcomes of these deliveries."""
        of: dict[str, list[DeliveryRow]] = {}
        for row in rows:
            of.setdefault(row.receiver, []).append(row)
        for each in planned:
            self.receivers[each.receiver] = ReceiverProgress(each, of.get(each.receiver, ()))

    @property
    def deadline(self) -> float:
        """In seconds since 1970."""
        ttl_ms = self.message.ttl_ms
        return self.arrived_at + ttl_ms / 1000 if ttl_ms else math.inf

    @property
    def is_decided(self) -> bool:
        return all(each.verdict is not None for each in self.receivers.values()) and not self.met

    def cancel_timers(self) -> None:
        for timer in (self.timer, self.turn_timer):
            if timer is not None:
                timer.cancel()


Tell = Callable[[OpenMessage, PeerMessage, CommunicationStep], None]


class Verdicts:
    """The verdicts of one hub at the owner of its log."""

    def __init__(
        self,
        clock: Clock,
        committer: Committer,
        journal: CommunicationJournal,
        make_queues: Callable[[Callable[[QueuedDelivery, str | None], None]], AddressQueues],
        tell: Tell,
        before_timeout: LastLook,
    ) -> None:
        """`tell(opened, report, step)` sends the report on a message and stores the step with it.
        `before_timeout(message)` gives input adapters a last chance to find the reply."""
        self.queues = make_queues(self._delivered)
        self._clock = clock
        self._committer = committer
        self._journal = journal
        self._tell = tell
        self._before_timeout = before_timeout
        self._open: dict[str, OpenMessage] = {}
        self._awaiting: set[str] = set()
        """Ids of open messages that were delivered and await a reply."""
        self.waiting_turns = 0
        """Number of deliveries whose turn has not come."""
        self.waiters = Waiters()
        self._tasks = TaskSet()

    @property
    def awaiting(self) -> int:
        """Number of delivered messages that await a reply."""
        return len(self._awaiting)

    def is_awaited(self, message: PeerMessage) -> bool:
        """Whether the message is a reply that an open message awaits."""
        return may_reply(message) and message.refers_to in self._awaiting

    def is_open(self, message_id: str) -> bool:
        return message_id in self._open

    def transient_digest(self, message_id: str) -> bytes | None:
        """The digest of an open message that is not on disk."""
        opened = self._open.get(message_id)
        return None if opened is None or opened.durable else digest(opened.message)

    def start(
        self,
        opened: OpenMessage,
        planned: Sequence[PlannedReceiver],
        rows: Iterable[DeliveryRow],
    ) -> None:
        """Queues the due deliveries, and counts the known outcomes."""
        message, deadline = opened.message, opened.deadline
        policies = {peer: policy for each in planned for peer, policy in each.peers.items()}
        if opened.receivers:
            self._open[message.id] = opened
            opened.unanswered = awaits_reply(message)
            if deadline != math.inf:
                opened.timer = asyncio.get_running_loop().call_later(
                    max(0.0, deadline - self._clock.now()), self._time_out_soon, opened
                )
        known = []
        for row in rows:
            if row.state == WAITING:
                opened.waiting[row.key] = row
            elif row.state == DUE and row.adapter:
                policy = policies.get(row.peer, "")
                queued = QueuedDelivery(row, message, deadline, policy, opened.durable)
                if opened.receivers:
                    opened.queued_deliveries.append(queued)
                self.queues.put(queued)
            else:
                known.append(row)
                if row.state == ARRIVED or not row.adapter:
                    opened.done_keys.append(row.key)
        self.waiting_turns += len(opened.waiting)
        for each in planned:
            if not each.peers and not each.policy:  # nothing but the reply counts
                opened.receivers[each.receiver].verdict = MET
        for progress in [each for each in opened.receivers.values() if each.verdict is not None]:
            assert progress.verdict is not None
            self._conclude(opened, progress, progress.verdict)  # also an empty collective
        for row in known:
            counting = opened.receivers.get(row.receiver)
            reason = row.reason if row.state == FAILED else None
            verdict = counting.feed(row, reason, row.at) if counting is not None else None
            if counting is not None and verdict is not None:
                self._conclude(opened, counting, verdict)
        self._take_turns(opened)
        if opened.loaded and deadline > self._clock.now():  # else rows are gone since it ran out
            for peer in {each for one in opened.receivers.values() for each in one.without_rows}:
                if self._open.get(message.id) is opened:
                    self._lose(opened, peer)  # it was erased before the restart

    # -- outcomes -------------------------------------------------------------------------------

    def _delivered(self, queued: QueuedDelivery, reason: str | None) -> None:
        """Called when a delivery arrived, or failed permanently."""
        row = queued.row
        if queued.cancelled:  # its time was over; `_time_out` gives the verdict
            if queued.durable:
                self._committer.commit(CommunicationStep(dropped=(row.key,)))
            return
        opened = self._open.get(row.message_id) if row.receiver else None
        progress = opened.receivers.get(row.receiver) if opened is not None else None
        state, now = ARRIVED if reason is None else FAILED, int(self._clock.now() * 1000)
        moved = (DeliveryMove(row.key, state, reason or "", now),)
        if opened is None or progress is None:
            if queued.durable:
                over = CommunicationStep(dropped=(row.key,))
                self._committer.commit(over if reason is None else CommunicationStep(moved=moved))
            return
        if reason is None:
            opened.done_keys.append(row.key)
        verdict = progress.feed(row, reason, now)
        if verdict is not None:
            self._conclude(opened, progress, verdict, moved)
        else:
            self._take_turns(opened, moved)

    def _conclude(
        self,
        opened: OpenMessage,
        progress: ReceiverProgress,
        verdict: DeliveryVerdict,
        moved: tuple[DeliveryMove, ...] = (),
    ) -> None:
        """Stores a receiver's verdict together with the deciding outcome and the report to the
        sender."""
        message = opened.message
        if opened.unanswered and verdict.result == "met":
            opened.met[progress.receiver] = verdict
            self._awaiting.add(message.id)
            self._take_turns(opened, moved)
            return
        if not progress.silent:
            self._journal.verdict(message, progress.receiver, progress.policy, verdict)
        report = report_on(message, progress.receiver, verdict)
        if progress.silent or (progress.quiet and verdict.result == "met"):
            report = None
        over = self._end_turns(opened, progress)
        step = CommunicationStep(moved=moved, dropped=over)
        if opened.is_decided:
            step = self._close(opened, verdict, moved)
            step = msgspec.structs.replace(step, dropped=(*step.dropped, *over))
        if verdict.result == "timed_out":
            step = msgspec.structs.replace(step, dropped_of=(message.id,))
        if report is None:
            if opened.durable and step != CommunicationStep():
                self._committer.commit(step)
            return
        if progress.receiver != message.receiver:
            name = f"{message.id}.{progress.receiver}{VERDICT_SUFFIX}"
            report = msgspec.structs.replace(report, id=name)
        self._tell(opened, report, step)

    def _close(
        self, opened: OpenMessage, verdict: DeliveryVerdict, moved: tuple[DeliveryMove, ...] = ()
    ) -> CommunicationStep:
        """Closes the message in memory; the returned step closes it on disk."""
        self._open.pop(opened.message.id, None)
        self._awaiting.discard(opened.message.id)
        opened.cancel_timers()
        self.waiters.tell(opened.message.id, verdict)
        done = (*opened.done_keys, *opened.waiting)
        self.waiting_turns -= len(opened.waiting)
        opened.waiting.clear()
        left = tuple(move for move in moved if move.key not in done)
        return CommunicationStep(moved=left, closed=(opened.message.id,), dropped=done)

    # -- turns ----------------------------------------------------------------------------------

    def _take_turns(self, opened: OpenMessage, moved: tuple[DeliveryMove, ...] = ()) -> None:
        """Begins the deliveries whose turn has come and ends those that nobody needs any more, in
        one step with the outcome that led to it."""
        now = int(self._clock.now() * 1000)
        over: list[str] = []
        started: list[QueuedDelivery] = []
        is_open = self._open.get(opened.message.id) is opened
        if is_open and (opened.waiting or opened.turn_timer is not None):
            for progress in opened.receivers.values():
                over += self._end_turns(opened, progress)
                for key in progress.begin_turns(now, opened.unanswered):
                    row = opened.waiting.pop(key)
                    self.waiting_turns -= 1
                    policy = progress.policy_of(row.peer)
                    more = (opened.message, opened.deadline, policy, opened.durable)
                    started.append(QueuedDelivery(row, *more))
            opened.queued_deliveries += started
            self._set_turn_timer(opened)
        due = tuple(DeliveryMove(each.row.key, DUE, "", now) for each in started)
        step = CommunicationStep(moved=(*moved, *due), dropped=tuple(over))
        if started:
            self._tasks.start(self._begin_turns(started, step))
        elif opened.durable and step != CommunicationStep():
            self._committer.commit(step)

    async def _begin_turns(self, started: list[QueuedDelivery], step: CommunicationStep) -> None:
        """Queues the deliveries once it is on disk that their turn has come."""
        if started[0].durable and not await self._committer.commit_and_wait(step):
            return  # the log's next owner begins them
        for queued in started:
            if not queued.cancelled:
                self.queues.put(queued)

    def _end_turns(self, opened: OpenMessage, progress: ReceiverProgress) -> tuple[str, ...]:
        """Cancels deliveries that nobody needs any more, and returns their keys."""
        over = progress.end_turns(opened.unanswered)
        for key in over:
            if opened.waiting.pop(key, None) is not None:
                self.waiting_turns -= 1
        if over:
            ended = set(over)
            for queued in opened.queued_deliveries:
                queued.cancelled |= queued.row.key in ended
        return tuple(over)

    def _set_turn_timer(self, opened: OpenMessage) -> None:
        if opened.turn_timer is not None:
            opened.turn_timer.cancel()
            opened.turn_timer = None
        next_at = min((each.next_turn_at for each in opened.receivers.values()), default=math.inf)
        if next_at != math.inf:
            seconds = max(0.0, next_at / 1000 - self._clock.now())
            loop = asyncio.get_running_loop()
            opened.turn_timer = loop.call_later(seconds, self._take_turns, opened)

    def forget(self, peer: str) -> None:
        """Cancels deliveries to an erased peer and drops the verdicts of its own messages. For a
        collective the peer counts as a failed member."""
        self.queues.cancel(peer)
        for opened in list(self._open.values()):
            if opened.message.sender == peer:
                self._abandon(opened)
            else:
                self._lose(opened, peer)

    def _lose(self, opened: OpenMessage, peer: str) -> None:
        """Handles the erasure of a receiver, or of a member of one."""
        progress = opened.receivers.get(peer)
        if progress is not None and progress.verdict is None:
            progress.verdict = ERASED
        opened.met.pop(peer, None)
        if opened.is_decided:
            self._abandon(opened)
            return
        for other in list(opened.receivers.values()):
            verdict = other.lose(peer)
            if verdict is not None:
                self._conclude(opened, other, verdict)
        self._take_turns(opened)

    def _abandon(self, opened: OpenMessage) -> None:
        """Ends the message without a report."""
        for queued in opened.queued_deliveries:
            queued.cancelled = True
        step = self._close(opened, ERASED)
        if opened.durable:
            gone = (opened.message.id,)
            self._committer.commit(msgspec.structs.replace(step, dropped_of=gone))

    # -- answers and time -----------------------------------------------------------------------

    def answer(self, message: PeerMessage) -> None:
        """Checks whether the message is a reply that an open message awaits."""
        if not may_reply(message):
            return
        opened = self._open.get(message.refers_to)
        if opened is not None and opened.unanswered:
            opened.unanswered = False
            self._awaiting.discard(message.refers_to)
            met, opened.met = opened.met, {}
            for progress in opened.receivers.values():
                acknowledged = progress.acknowledge()
                if acknowledged is not None:
                    met[progress.receiver] = acknowledged
            for receiver, verdict in met.items():
                self._conclude(opened, opened.receivers[receiver], verdict)

    def expire(self, opened: OpenMessage) -> None:
        """Times out a held message, which was never sent."""
        self._open[opened.message.id] = opened
        opened.unanswered = awaits_reply(opened.message)
        self._tasks.start(self._time_out(opened, HELD_TOO_LONG))

    def _time_out_soon(self, opened: OpenMessage) -> None:
        self._tasks.start(self._time_out(opened, TIMED_OUT))

    async def _time_out(self, opened: OpenMessage, reason: str) -> None:
        message = opened.message
        if opened.unanswered:
            last_look = self._before_timeout(message)
            if last_look is not None:
                await asyncio.wait([last_look])
        if self._open.get(message.id) is not opened:
            return
        for queued in opened.queued_deliveries:
            queued.cancelled = True
        waiting, opened.met = opened.met, {}
        opened.unanswered = False
        for receiver, progress in opened.receivers.items():
            if receiver in waiting:
                progress.verdict = None
        for progress in opened.receivers.values():
            verdict = progress.time_out(reason)
            if verdict is not None:
                self._conclude(opened, progress, verdict)

    async def stop(self, seconds: float) -> None:
        for opened in self._open.values():
            opened.cancel_timers()
        await self.queues.stop(seconds)
        await self._committer.settle()
        await self._tasks.end()
