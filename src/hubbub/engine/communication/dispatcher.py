"""The dispatcher of a hub, at the owner of its log: accepts messages, stores them with the plan of
their deliveries, and starts the deliveries."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET

from hubbub.domain.audit import Audit, noted
from hubbub.domain.communication.control import copy_to
from hubbub.domain.communication.following import subscription_of
from hubbub.domain.communication.information import MessageInfo
from hubbub.domain.communication.messages import (
    AUTH,
    COMMUNICATION,
    REPLY,
    PeerMessage,
    digest,
)
from hubbub.domain.communication.requests import LogMessage, VerdictTold
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
from hubbub.domain.rules import HubConfiguration
from hubbub.engine.communication.committing import AGAIN_SECONDS, Committer
from hubbub.engine.communication.instances import Instances
from hubbub.engine.communication.journalling import CommunicationJournal
from hubbub.engine.communication.knowledge import PeerKnowledge, known_after_a_while
from hubbub.engine.communication.log_messages import from_logged, to_logged
from hubbub.engine.communication.logins import Held
from hubbub.engine.communication.ordering import ReceiverOrder
from hubbub.engine.communication.planning import (
    DeliveryPlan,
    Info,
    PlannedReceiver,
    Planner,
    decode_plan,
)
from hubbub.engine.communication.recovery import read_messages, read_open, read_verdict, replay
from hubbub.engine.communication.shipping import AddressQueues, QueuedDelivery
from hubbub.engine.communication.verdicts import LastLook, OpenMessage, Verdicts
from hubbub.ports.clock import Clock
from hubbub.ports.directories import NotificationCallback
from hubbub.ports.storage.communication import CommunicationStore
from hubbub.tasks import TaskSet, awaited

logger = logging.getLogger(__name__)

T = TypeVar("T")
MOST_DELIVERIES = 100_000
"""Maximum number of waiting deliveries per hub, unless the hub's quota says otherwise."""


class Dispatcher:
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
        make_queues: Callable[[Callable[[QueuedDelivery, str | None], None]], AddressQueues],
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
        self._verdicts = Verdicts(
            clock, committer, journal, make_queues, self._tell, before_timeout
        )
        self.queues = self._verdicts.queues
        self._arriving: dict[str, tuple[bytes, asyncio.Future[None]]] = {}
        """Messages that are being stored under an id chosen by their sender."""
        self._order = ReceiverOrder()
        self._reviving = asyncio.Lock()
        self._tasks = TaskSet()
        self._to_end = TaskSet(awaited)
        self.configure(configuration)

    def configure(self, configuration: HubConfiguration) -> None:
        """Applies the settings of the hub; called at the start and after each change."""
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

    async def end_of(self, message_id: str) -> float | None:
        """When the message's time to live ends, in seconds since 1970; None if it is not in the log
        or never expires. Raises `HubbubError`."""
        for found in await self._store.read_logged(self.hub, [message_id]):
            ttl_ms = from_logged(found.message).ttl_ms
            return (found.message.published_at + ttl_ms) / 1000 if ttl_ms else None
        return None

    # -- taking in ------------------------------------------------------------------------------

    async def run_to_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs work that accepts a message in several steps, and returns its result. The work
        continues if the caller is cancelled: a half-accepted message would wait for the log's next
        owner."""
        return await asyncio.shield(self._to_end.start(work))

    async def send(self, message: PeerMessage, technology: str, fresh: bool, durable: bool) -> str:
        """Returns the message's id once the message is on disk. Raises `Conflict` if another
        message has the id, `QuotaExceeded`, and the errors of the store."""
        waiting = self.queues.waiting + self._order.waiting + self._verdicts.awaiting
        waiting += self._verdicts.waiting_turns
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
        """Returns the result of `store`. Messages with the same id and content are one message and
        stored once: returns None if it is already stored, or transient and still open. Raises
        `Conflict`."""
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
        """Sends the message once, and waits for its verdict. Raises the errors of `send`."""
        with self._verdicts.waiters.waiting(message.id) as verdict:
            if not self._verdicts.is_open(message.id):
                known = await self._store.read_logged(self.hub, [message.id])
                if known and known[0].state == DECIDED:
                    return await read_verdict(self._store, self.hub, message.id)
                if not known:
                    await self.run_to_end(self.send(message, "communication", False, True))
            await asyncio.wait([verdict], timeout=seconds)
            return verdict.result() if verdict.done() else VerdictTold("open")

    def _receivers(self, message: PeerMessage) -> Sequence[str]:
        """A message from a channel goes only to the peer that follows the channel."""
        followed = subscription_of(message.id) is not None
        return (message.receiver,) if followed else self._routing.receivers(message)

    async def log(
        self,
        message: PeerMessage,
        technology: str = "communication",
        also: CommunicationStep | None = None,
        until_stored: bool = False,
    ) -> None:
        """Stores the message with its plan and starts the deliveries, even if the caller is
        cancelled meanwhile. `also` is stored in the same transaction. `until_stored`: retry until
        the store accepts it."""
        receivers = self._receivers(message)
        infos = self.knowledge.at_once(receivers)
        plan = None if infos is None else self._plan(message, receivers, infos)
        secret = message.type == AUTH and message.subtype == REPLY
        state = DECIDED if plan is not None and not plan.receivers else PLANNED
        if plan is None:
            state = NEW
        if secret:
            state = DECIDED  # the next owner would not know the token
        also = also or CommunicationStep()
        step = msgspec.structs.replace(
            also,
            digest=digest(message),
            state=state,
            plan=plan.encoded() if plan is not None and state == PLANNED else None,
            added=() if plan is None or secret else plan.rows,
        )
        logged = self._logged(message, technology, step)

        def begin(serial: int) -> None:
            opened = OpenMessage(message, self._clock.now(), durable=not secret)
            self._verdicts.answer(message)
            self._proceed(opened, receivers, plan, serial)

        append = self._committer.append_until_stored if until_stored else self._committer.append
        await append(logged, begin)

    async def _begin_transient(self, message: PeerMessage) -> None:
        """Returns once the message is open, so that a second message with its id is recognised."""
        beginning = self._accept_transient(message)
        if beginning is not None:
            await asyncio.wait([beginning])

    def _accept_transient(self, message: PeerMessage) -> asyncio.Task[None] | None:
        """Opens a message that is not stored. Returns the task that starts it, as `_proceed`
        does."""
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
        """Stores a message that needs no deliveries, and returns its serial. The `released`
        messages stop being held in the same transaction."""
        ids = tuple(held.message.id for held in released)
        step = CommunicationStep(digest(message), state, released=ids)
        return await self._committer.append(self._logged(message, technology, step))

    async def hold(self, message: PeerMessage, technology: str) -> int | None:
        """Stores the message without delivering it until it is released, and returns its serial;
        None if it is already stored. Raises `Conflict`."""
        return await self._once(message, lambda: self.log_only(message, technology, HELD))

    def _logged(self, message: PeerMessage, technology: str, step: CommunicationStep) -> LogMessage:
        logged = to_logged(self.hub, message, int(self._clock.now() * 1000), technology)
        return LogMessage(logged, step)

    def release(self, held: Held) -> None:
        """Starts the delivery of a held message."""
        receivers = self._routing.receivers(held.message)
        self._verdicts.answer(held.message)
        self._proceed(OpenMessage(held.message, held.at / 1000), receivers, None, held.serial)

    async def release_all(self, held: Sequence[Held]) -> None:
        """Releases messages in order, once the store has recorded that they are no longer held.
        Raises `StaleOwner`."""
        ids = tuple(each.message.id for each in held)
        if not await self._committer.commit_and_wait(CommunicationStep(released=ids)):
            raise StaleOwner(f"this node does not own the log of hub {self.hub!r} any more")
        for each in held:
            self.release(each)

    def expire(self, held: Held) -> None:
        """Times out a message that was held too long. Its receivers were never resolved."""
        opened = OpenMessage(held.message, held.at / 1000)
        receiver = held.message.receiver or COMMUNICATION
        opened.expect([PlannedReceiver(receiver, {})], ())
        self._verdicts.expire(opened)

    def drop_held(self, message_id: str) -> None:
        self._committer.commit(CommunicationStep(closed=(message_id,)))

    # -- planning -------------------------------------------------------------------------------

    def _plan(
        self, message: PeerMessage, receivers: Sequence[str], infos: Mapping[str, Info]
    ) -> DeliveryPlan:
        planner = Planner(message, infos, self.instances.serves, self._notified, self._clock.now())
        return planner.plan(receivers)

    def _proceed(
        self, opened: OpenMessage, receivers: Sequence[str], plan: DeliveryPlan | None, serial: int
    ) -> asyncio.Task[None] | None:
        """Starts the message now if it is planned and no earlier message to these receivers waits;
        otherwise returns the task that will start it."""
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
        plan: DeliveryPlan | None,
        serial: int,
        before: set[asyncio.Task[None]],
    ) -> None:
        """Resolves the receivers if necessary, and starts the message after the messages `before`
        it."""
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
            if not await self._committer.commit_and_wait(step):
                return  # the log's next owner plans the message again
        self._begin(opened, plan)

    def _begin(self, opened: OpenMessage, plan: DeliveryPlan) -> None:
        """Queues the planned deliveries, and calls the Python callbacks for their share."""
        message = opened.message
        opened.expect(plan.receivers, plan.rows)
        for peer, reason in plan.refused:
            self._journal.refused(message, peer, reason)
        self._verdicts.start(opened, plan.receivers, plan.rows)
        if plan.to_callbacks:
            self._notify(message)

    def _notify(self, message: PeerMessage) -> None:
        copy = copy_to(message, message.receiver)
        for callback in self._callbacks:
            self._tasks.start(self._notify_one(callback, copy))

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
        """`loaded`: the previous owner of the log may already have stored this report."""
        try:
            if loaded and await self._is_logged(report.id):
                self._committer.commit(step)
                return
            await self.log(report, also=step, until_stored=True)
        except StaleOwner:
            pass  # the message is still open on disk: its next owner decides it again

    async def _is_logged(self, message_id: str) -> bool:
        """Retries while the store is unavailable."""
        while True:
            try:
                return bool(await read_messages(self._store, self.hub, [message_id]))
            except HubbubError as error:
                logger.warning("hub %s: a verdict waits: %s", self.hub, error)
            await asyncio.sleep(AGAIN_SECONDS)

    # -- coming back ----------------------------------------------------------------------------

    async def load(self, hold: Callable[[Held], None]) -> None:
        """Resumes messages that were open when the previous owner stopped. `hold` receives the
        messages that wait for their senders' logins. Raises `HubbubError`."""
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
        """Ends all open messages from or to an erased peer, without reports."""
        self.knowledge.forget([peer])
        self._verdicts.forget(peer)

    async def replay(self, keys: Sequence[str], audit: Audit = UNSET) -> int:
        """See `recovery.replay`."""
        async with self._reviving:
            again = (self._committer, self.queues, self._clock, audit)
            return await replay(self._store, self.hub, keys, *again)

    async def discard(self, keys: Sequence[str], audit: Audit = UNSET) -> int:
        """Deletes dead letters and returns their number. Those of open messages are kept: after a
        restart they are counted again for the verdict. Raises `StaleOwner`."""
        async with self._reviving:
            found = await self._store.read_deliveries_of(self.hub, keys)
            dead = tuple(
                row.key
                for row in found
                if row.state == FAILED and not self._verdicts.is_open(row.message_id)
            )
            step = CommunicationStep(dropped=dead, audits=noted(audit, dead))
            if not await self._committer.commit_and_wait(step):
                raise StaleOwner(f"this node does not own the log of hub {self.hub!r} any more")
            return len(dead)

    async def stop(self, seconds: float) -> None:
        await self._verdicts.stop(seconds)
        await self._to_end.end()
        await self._tasks.end()
        await self.instances.close()


def _taken(message: PeerMessage) -> Conflict:
    return Conflict(
        f"the id {message.id[:64]!r} belongs to another message; choose another, or leave it out"
    )
