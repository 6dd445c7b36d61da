"""The exchange of a hub, at the owner of its log: takes messages in, stores them with the plan of
their deliveries, and has these begun."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from hubbub.domain.communication.following import subscription_of
from hubbub.domain.communication.information import MessageInfo
from hubbub.domain.communication.messages import (
    AUTH,
    COMMUNICATION,
    REPLY,
    PeerMessage,
    digest,
)
from hubbub.domain.communication.requests import VerdictTold
from hubbub.domain.communication.routing import RoutingIndex
from hubbub.domain.communication.steps import (
    DECIDED,
    FAILED,
    HELD,
    NEW,
    PLANNED,
    CommunicationStep,
)
from hubbub.domain.errors import Conflict, HubbubError, QuotaExceeded, StaleOwner
from hubbub.domain.messages import Message
from hubbub.domain.rules import HubConfiguration
from hubbub.engine.communication.committing import AGAIN_SECONDS, Committer
from hubbub.engine.communication.instances import Instances
from hubbub.engine.communication.journalling import CommunicationJournal
from hubbub.engine.communication.knowledge import PeerKnowledge, known_after_a_while
from hubbub.engine.communication.logging import from_logged, to_logged
from hubbub.engine.communication.logins import Held
from hubbub.engine.communication.ordering import ReceiverOrder
from hubbub.engine.communication.planning import (
    Info,
    Plan,
    PlannedReceiver,
    Planner,
    decode_plan,
)
from hubbub.engine.communication.recovery import read_messages, read_open, read_verdict, replay
from hubbub.engine.communication.shipping import Lanes, Parcel
from hubbub.engine.communication.verdicts import LastLook, OpenMessage, Verdicts
from hubbub.ports.clock import Clock
from hubbub.ports.directories import NotificationCallback
from hubbub.ports.storage.communication import CommunicationStore
from hubbub.tasks import TaskSet, awaited

logger = logging.getLogger(__name__)

T = TypeVar("T")
MOST_DELIVERIES = 100_000
"""Of one hub, where its quota does not say otherwise."""


class Exchange:
    def __init__(
        self,
        hub: str,
        *,
        store: CommunicationStore,
        clock: Clock,
        journal: CommunicationJournal,
        configuration: HubConfiguration,
        committer: Committer,
        knowledge: PeerKnowledge,
        instances: Instances,
        make_lanes: Callable[[Callable[[Parcel, str | None], None]], Lanes],
        callbacks: Sequence[NotificationCallback],
        before_timeout: LastLook,
    ) -> None:
        self.hub = hub
        self.knowledge = knowledge
        self.instances = instances
        self._store = store
        self._clock = clock
        self._journal = journal
        self._committer = committer
        self._callbacks = callbacks
        self._verdicts = Verdicts(clock, committer, journal, make_lanes, self._tell, before_timeout)
        self.lanes = self._verdicts.lanes
        self._arriving: dict[str, tuple[bytes, asyncio.Future[None]]] = {}
        """Messages on their way to the disk whose ids their senders made up."""
        self._order = ReceiverOrder()
        self._reviving = asyncio.Lock()
        self._tasks = TaskSet()
        self._unbroken = TaskSet(awaited)
        self.configure(configuration)

    def configure(self, configuration: HubConfiguration) -> None:
        """The settings of the hub, now and whenever they change."""
        self.configuration = configuration
        self._routing = RoutingIndex(configuration.routes.values())
        self._notified = sorted(
            name for name, each in configuration.callbacks.items() if "notify" in each.roles
        )
        self._infos = {
            (each.type, each.subtype): each for each in configuration.message_info.values()
        }
        self._most = configuration.settings.quotas.deliveries or MOST_DELIVERIES
        self.instances.configure(configuration.adapters)

    def info_about(self, type: str, subtype: str) -> MessageInfo | None:
        return self._infos.get((type, subtype))

    # -- taking in ------------------------------------------------------------------------------

    async def unbroken(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of work that takes a message in by several steps. It goes on where the caller
        is cancelled: a message of which only some steps are done would wait for the log's next
        owner."""
        return await asyncio.shield(self._unbroken.start(work))

    async def send(self, message: PeerMessage, technology: str, fresh: bool, durable: bool) -> str:
        """The id, when the message is on disk. Raises `Conflict` for an id that another message
        has, `QuotaExceeded`, and what the store raises."""
        waiting = self.lanes.waiting + self._order.waiting + self._verdicts.awaiting
        if waiting >= self._most and not self._verdicts.is_awaited(message):
            raise QuotaExceeded(
                f"hub {self.hub!r} has {waiting} deliveries that wait, some perhaps for a reply, "
                "which is its quota (deliveries); wait until some are done"
            )
        if not fresh and not durable:
            await self._once(message, lambda: self._begin_transient(message))
        elif not durable:
            self._accept_transient(message)
        elif fresh:
            await self.log(message, technology)
        else:
            await self._once(message, lambda: self.log(message, technology))
        return message.id

    async def _once(self, message: PeerMessage, store: Callable[[], Awaitable[T]]) -> T | None:
        """What `store` answers. The same id and content is the same message, which is stored once;
        None: it is stored already, or transient and still open. Raises `Conflict`."""
        content = digest(message)
        arriving = self._arriving.get(message.id)
        if arriving is not None:
            if arriving[0] != content:
                raise _taken(message)
            await asyncio.shield(arriving[1])
            return None
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._arriving[message.id] = (content, done)
        try:
            found = await self._store.read_logged(self.hub, [message.id])
            known = found[0].digest if found else self._verdicts.transient_digest(message.id)
            if known is not None and known != content:
                raise _taken(message)
            stored = None if known is not None else await store()
            done.set_result(None)
            return stored
        except BaseException as error:
            done.set_exception(error)
            done.exception()  # whoever repeats the message meanwhile hears of it, or nobody
            raise
        finally:
            del self._arriving[message.id]

    async def deliver(self, message: PeerMessage, seconds: float) -> VerdictTold:
        """Send the message once, and wait for its verdict. Raises what `send` raises."""
        with self._verdicts.waiters.waiting(message.id) as verdict:
            if not self._verdicts.is_open(message.id):
                known = await self._store.read_logged(self.hub, [message.id])
                if known and known[0].state == DECIDED:
                    return await read_verdict(self._store, self.hub, message.id)
                if not known:
                    await self.unbroken(self.send(message, "communication", False, True))
            await asyncio.wait([verdict], timeout=seconds)
            return verdict.result() if verdict.done() else VerdictTold("open")

    def _receivers(self, message: PeerMessage) -> Sequence[str]:
        """A message of a channel goes to the peer that follows the channel, and nowhere else."""
        followed = subscription_of(message.id) is not None
        return (message.receiver,) if followed else self._routing.receivers(message)

    async def log(
        self,
        message: PeerMessage,
        technology: str = "communication",
        also: CommunicationStep | None = None,
        at_last: bool = False,
    ) -> None:
        """Store the message with what follows from it, then begin, also where the caller is
        cancelled meanwhile. `also` is part of the same transaction. `at_last`: as often as it
        takes."""
        receivers = self._receivers(message)
        infos = self.knowledge.at_once(receivers)
        plan = None if infos is None else self._plan(message, receivers, infos)
        secret = message.type == AUTH and message.subtype == REPLY
        state = DECIDED if plan is not None and not plan.receivers else PLANNED
        if plan is None:
            state = DECIDED if secret else NEW  # the next owner would not know the token
        also = also or CommunicationStep()
        step = msgspec.structs.replace(
            also,
            digest=digest(message),
            state=state,
            plan=plan.encoded() if plan is not None and plan.receivers else None,
            added=() if plan is None or secret else plan.rows,
        )
        logged = self._logged(message, technology, step)

        def begin(serial: int) -> None:
            opened = OpenMessage(message, self._clock.now(), durable=not secret)
            self._verdicts.answer(message)
            self._proceed(opened, receivers, plan, serial)

        append = self._committer.append_at_last if at_last else self._committer.append
        await append(logged, begin)

    async def _begin_transient(self, message: PeerMessage) -> None:
        """Returns when the message has begun, so that another one with its id finds it."""
        beginning = self._accept_transient(message)
        if beginning is not None:
            await asyncio.wait([beginning])

    def _accept_transient(self, message: PeerMessage) -> asyncio.Task[None] | None:
        """As `_proceed`."""
        receivers = self._routing.receivers(message)
        infos = self.knowledge.at_once(receivers)
        opened = OpenMessage(message, self._clock.now(), durable=False)
        self._verdicts.answer(message)
        plan = None if infos is None else self._plan(message, receivers, infos)
        return self._proceed(opened, receivers, plan, 0)

    async def log_only(
        self,
        message: PeerMessage,
        technology: str,
        state: int = DECIDED,
        released: Sequence[Held] = (),
    ) -> int:
        """Store a message that somebody took care of already; answers its serial. In the same
        transaction those that are `released` are held no longer."""
        ids = tuple(held.message.id for held in released)
        step = CommunicationStep(digest(message), state, released=ids)
        return await self._committer.append(self._logged(message, technology, step))

    async def hold(self, message: PeerMessage, technology: str) -> int | None:
        """Store the message, and do nothing with it until it is released; answers its serial. None:
        it is stored already. Raises `Conflict`."""
        return await self._once(message, lambda: self.log_only(message, technology, HELD))

    def _logged(self, message: PeerMessage, technology: str, step: CommunicationStep) -> Message:
        logged = to_logged(self.hub, message, int(self._clock.now() * 1000), technology)
        logged.communication = step
        return logged

    def release(self, held: Held) -> None:
        """A message that was held goes on."""
        receivers = self._routing.receivers(held.message)
        self._verdicts.answer(held.message)
        self._proceed(OpenMessage(held.message, held.at / 1000), receivers, None, held.serial)

    async def release_all(self, held: Sequence[Held]) -> None:
        """As `release`, in order, once it is on disk that they are held no longer. Raises
        `StaleOwner`."""
        ids = tuple(each.message.id for each in held)
        if not await self._committer.commit_first(CommunicationStep(released=ids)):
            raise StaleOwner(f"this node does not own the log of hub {self.hub!r} any more")
        for each in held:
            self.release(each)

    def expire(self, held: Held) -> None:
        """A message that was held for too long times out. Who its receivers are was never asked."""
        opened = OpenMessage(held.message, held.at / 1000)
        receiver = held.message.receiver or COMMUNICATION
        opened.expect([PlannedReceiver(receiver, {})], ())
        self._verdicts.expire(opened)

    def drop_held(self, message_id: str) -> None:
        self._committer.commit(CommunicationStep(closed=(message_id,)))

    # -- planning -------------------------------------------------------------------------------

    def _plan(
        self, message: PeerMessage, receivers: Sequence[str], infos: Mapping[str, Info]
    ) -> Plan:
        planner = Planner(message, infos, self.instances.serves, self._notified, self._clock.now())
        return planner.plan(receivers)

    def _proceed(
        self, opened: OpenMessage, receivers: Sequence[str], plan: Plan | None, serial: int
    ) -> asyncio.Task[None] | None:
        """Begin, at once where the plan is made and no earlier message to these receivers waits;
        else answers the task that begins."""
        before = self._order.before(receivers)
        if plan is not None and not before:
            self._begin(opened, plan)
            return None
        beginning = self._tasks.start(self._begin_later(opened, receivers, plan, serial, before))
        self._order.add(receivers, beginning)
        return beginning

    async def _begin_later(
        self,
        opened: OpenMessage,
        receivers: Sequence[str],
        plan: Plan | None,
        serial: int,
        before: set[asyncio.Task[None]],
    ) -> None:
        """Ask about the receivers if need be, and begin after the messages `before`."""
        known = plan is not None
        if plan is None:
            infos = await known_after_a_while(self.knowledge, receivers, AGAIN_SECONDS)
        if before:
            await asyncio.wait(before)
        if plan is None:
            plan = self._plan(opened.message, receivers, infos)
        if opened.durable and not known:
            rows = tuple(msgspec.structs.replace(row, serial=serial) for row in plan.rows)
            message_id = opened.message.id
            planned = ((message_id, plan.encoded()),) if plan.receivers else ()
            closed = () if plan.receivers else (message_id,)
            step = CommunicationStep(added=rows, planned=planned, closed=closed)
            if not await self._committer.commit_first(step):
                return  # the log's next owner plans the message again
        self._begin(opened, plan)

    def _begin(self, opened: OpenMessage, plan: Plan) -> None:
        """Send the copies that are planned, and tell callbacks in Python of what is theirs."""
        message = opened.message
        opened.expect(plan.receivers, plan.rows)
        for peer, reason in plan.refused:
            self._journal.refused(message, peer, reason)
        self._verdicts.start(opened, plan.receivers, plan.rows)
        if plan.to_callbacks:
            self._notify(message)

    def _notify(self, message: PeerMessage) -> None:
        for callback in self._callbacks:
            self._tasks.start(self._notify_one(callback, message))

    async def _notify_one(self, callback: NotificationCallback, message: PeerMessage) -> None:
        try:
            await callback.notify(self.hub, message)
        except Exception:
            logger.exception("hub %s: a notification callback failed", self.hub)

    # -- reports --------------------------------------------------------------------------------

    def _tell(self, opened: OpenMessage, report: PeerMessage, step: CommunicationStep) -> None:
        if opened.durable:
            self._tasks.start(self._report(report, step, opened.loaded))
        else:
            self._accept_transient(report)

    async def _report(self, report: PeerMessage, step: CommunicationStep, loaded: bool) -> None:
        """`loaded`: of several receivers one may have been reported on by the log's last owner."""
        try:
            if loaded and await self._is_logged(report.id):
                self._committer.commit(step)
                return
            await self.log(report, also=step, at_last=True)
        except StaleOwner:
            pass  # the message is still open on disk: its next owner decides it again

    async def _is_logged(self, message_id: str) -> bool:
        """However long the store is away."""
        while True:
            try:
                return bool(await read_messages(self._store, self.hub, [message_id]))
            except HubbubError as error:
                logger.warning("hub %s: a verdict waits: %s", self.hub, error.message)
            await asyncio.sleep(AGAIN_SECONDS)

    # -- coming back ----------------------------------------------------------------------------

    async def load(self, hold: Callable[[Held], None]) -> None:
        """What was open when the log's last owner stopped. `hold` is told of messages that wait for
        their senders. Raises `HubbubError`."""
        for found, rows in await read_open(self._store, self.hub):
            message, at = from_logged(found.message), found.message.published_at
            opened = OpenMessage(message, at / 1000, loaded=True)
            if found.state == HELD:
                hold(Held(message, at, found.message.serial))
            elif found.state == NEW:
                receivers = self._receivers(message)
                self._proceed(opened, receivers, None, found.message.serial)
            else:
                plan = decode_plan(found.plan) if found.plan else ()
                opened.expect(plan, rows)
                self._verdicts.start(opened, plan, rows)

    def forget(self, peer: str) -> None:
        """The peer is being erased: what is open of or for the peer ends without a report."""
        self.knowledge.forget([peer])
        self._verdicts.forget(peer)

    async def replay(self, keys: Sequence[str]) -> int:
        """As `recovery.replay`."""
        async with self._reviving:
            again = (self._committer, self.lanes, self._clock)
            return await replay(self._store, self.hub, keys, *again)

    async def discard(self, keys: Sequence[str]) -> int:
        """Delete dead letters; answers how many. Those of a message that is open stay: a restart
        counts them once more. Raises `StaleOwner`."""
        async with self._reviving:
            found = await self._store.read_deliveries_of(self.hub, keys)
            dead = tuple(
                row.key
                for row in found
                if row.state == FAILED and not self._verdicts.is_open(row.message_id)
            )
            if not await self._committer.commit_first(CommunicationStep(dropped=dead)):
                raise StaleOwner(f"this node does not own the log of hub {self.hub!r} any more")
            return len(dead)

    async def stop(self, seconds: float) -> None:
        await self._verdicts.stop(seconds)
        await self._unbroken.end()
        await self._tasks.end()
        await self.instances.close()


def _taken(message: PeerMessage) -> Conflict:
    return Conflict(
        f"the id {message.id[:64]!r} belongs to another message; choose another, or leave it out"
    )
