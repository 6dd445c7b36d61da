"""The push driver: receives messages from their channels' owner, finds the devices of their
audience, and delivers. It never delays a channel; its queues are bounded per hub and are lost with
the node."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from hubbub.domain.errors import HUB_AWAY, BadRequest, HubbubError
from hubbub.domain.journal import PUSH_ATTEMPT, JournalEvent
from hubbub.domain.limits import KeyedBuckets
from hubbub.domain.messages import Message
from hubbub.domain.names import partition_of
from hubbub.domain.push.content import PushNote, note_of
from hubbub.domain.push.options import NO_OPTIONS, PushOptions
from hubbub.domain.push.outcomes import after_refusal, is_hopeless
from hubbub.domain.push.tokens import PushToken
from hubbub.domain.webhooks import retry_delay
from hubbub.engine.access.revocations import ANY_HUB
from hubbub.engine.channels.rooms import OwnerRoom
from hubbub.engine.counters import Durations
from hubbub.engine.directory import ConfigurationOf
from hubbub.engine.outward.attempts import Pace
from hubbub.engine.push.audience import PendingPush, PushAudience
from hubbub.engine.push.counting import HubPushCounters, LastPushError
from hubbub.engine.push.credentials import PushCredentials
from hubbub.engine.push.followings import PushFollowings
from hubbub.engine.push.limits import PushSettings
from hubbub.engine.push.queues import HubQueue, PushDelivery, ServiceQueue
from hubbub.engine.push.sending import Attempt, Content, NoCredentials, PushSender
from hubbub.ports import randomness
from hubbub.ports.clock import Clock
from hubbub.ports.journal import Journal
from hubbub.ports.storage.push import PushStore
from hubbub.tasks import TaskSet

logger = logging.getLogger(__name__)

_ROOM_SECONDS = 5.0
"""How long a delivery waits for room in the queue before it is dropped."""
_AT_ONCE = 10
"""Deliveries queued in one turn of the event loop."""
_NOTE_SECONDS = 1.0
_NOTED_EVERY_MS = 86_400_000
"""A token's success is stored at most once a day."""
_ALARM_SECONDS = 60.0
_MOST_BUCKETS = 200_000
_LONGEST_RETRY_SECONDS = 600.0
_STOP_SECONDS = 2.0


class PushDriver(OwnerRoom):
    """Pushes the messages of this node's channels."""

    def __init__(
        self,
        *,
        store: PushStore,
        clock: Clock,
        configuration_of: ConfigurationOf,
        hubs: Callable[[], Sequence[str]],
        owns: Callable[[int], bool],
        audience: PushAudience,
        followings: PushFollowings,
        credentials: PushCredentials,
        sender: PushSender,
        settings: PushSettings,
        journal: Journal,
    ) -> None:
        """`owns` says whether this node owns a partition; `hubs` returns the names of all hubs."""
        self._store = store
        self._clock = clock
        self._configuration_of = configuration_of
        self._hubs = hubs
        self._owns = owns
        self._audience = audience
        self._followings = followings
        self._credentials = credentials
        self._sender = sender
        self._settings = settings
        self._journal = journal
        self.counters: defaultdict[str, HubPushCounters] = defaultdict(HubPushCounters)
        self.queues: dict[str, HubQueue] = {}
        self._changes: Counter[str] = Counter()
        """Numbers of changes of settings or revocations, by hub or `ANY_HUB`."""
        self._paces: dict[str, Pace | None] = {}
        self._buckets = KeyedBuckets(settings.per_token / 60, settings.per_token, _MOST_BUCKETS)
        self._results: dict[str, dict[str, PushToken]] = {}
        self._alarms: dict[tuple[str, str], float] = {}
        self._tasks = TaskSet()

    # -- what comes in --------------------------------------------------------------------------

    def pushed(self, message: Message, options: Mapping[str, Any] | None) -> None:
        asked = NO_OPTIONS if options is None else msgspec.convert(options, PushOptions)
        self._offer(PendingPush(note_of(message, asked)))

    def push(self, hub: str, users: Sequence[str], options: PushOptions) -> str:
        """Pushes to the devices of these users; returns the push's id in the journal."""
        note = self._note(hub, options)
        self._offer(PendingPush(note, tuple(dict.fromkeys(users))))
        return note.message_id

    async def test(
        self,
        hub: str,
        tokens: Sequence[PushToken],
        options: PushOptions,
        message_id: str | None = None,
    ) -> list[Attempt]:
        """Makes one immediate attempt per token. `message_id` identifies the push to the device and
        in the journal. Raises `StoreUnavailable`."""
        content = Content(self._note(hub, options, message_id))

        async def one(token: PushToken) -> Attempt:
            delivery = PushDelivery(
                token, content, answer=asyncio.get_running_loop().create_future()
            )
            return await self._attempt(delivery)

        return list(await asyncio.gather(*map(one, tokens)))

    def _note(self, hub: str, options: PushOptions, message_id: str | None = None) -> PushNote:
        id = message_id or f"push-{randomness.token_hex(8)}"
        return PushNote(hub, "", "", id, 0, self._now(), options)

    def _offer(self, pushed: PendingPush) -> None:
        hub = pushed.note.hub
        queue = self.queues.get(hub)
        if queue is None:
            queue = self.queues[hub] = HubQueue()
        if not queue.offer(pushed, self._settings.queue):
            self.counters[hub].overflowed += 1
        elif not queue.spreading:
            queue.spreading = True
            self._tasks.start(self._spread(hub, queue))

    def hub_changed(self, hub: str) -> None:
        self._changes[hub] += 1
        self._paces.pop(hub, None)
        self._credentials.forget(hub)
        queue = self.queues.get(hub)
        if queue is not None and not self._is_there(hub):
            queue.drop_waiting()
        for name in self._hubs() if hub == ANY_HUB else (hub,):
            self._followings.review(name, self._concerns)

    def _is_there(self, hub: str) -> bool:
        try:
            self._configuration_of(hub)
        except HUB_AWAY:
            return False
        return True

    def channel_changed(self, hub: str, channel: str) -> None:
        if self._concerns(hub, channel):
            self._followings.review_channel(hub, channel)

    async def user_erased(self, hub: str, user_id: str) -> None:
        queue = self.queues.get(hub)
        if queue is not None:
            queue.erase(user_id, self._now())

    def _concerns(self, hub: str, channel: str) -> bool:
        return self._owns(partition_of(hub, channel))

    # -- spreading ------------------------------------------------------------------------------

    async def _spread(self, hub: str, queue: HubQueue) -> None:
        """Finds devices for pending pushes until none is left."""
        try:
            while queue.waiting:
                pushed = queue.take()
                try:
                    await self._spread_some(hub, queue, pushed)
                except HubbubError as error:
                    self.counters[hub].overflowed += len(pushed)
                    logger.warning("pushes of hub %r are dropped: %s", hub, error)
        finally:
            queue.spreading = False
            self._forget_empty(hub, queue)

    async def _spread_some(self, hub: str, queue: HubQueue, pushed: list[PendingPush]) -> None:
        contents = {each.note.message_id: Content(each.note) for each in pushed}
        placed, checked = 0, self._changes_of(hub)
        async for token, notes in self._audience.reach(pushed):
            for note in notes:
                content = contents[note.message_id]
                await self._place(hub, queue, PushDelivery(token, content, checked))
                placed += 1
                if placed % _AT_ONCE == 0:
                    await asyncio.sleep(0)

    async def _place(self, hub: str, queue: HubQueue, delivery: PushDelivery) -> None:
        try:
            destination = self._sender.destination(delivery.token)
        except BadRequest:
            self.counters[hub].outcomes[delivery.token.platform, "refused"] += 1
            return
        most = self._settings.queue
        lane = queue.lanes.get(destination.name)
        if queue.held >= most or (lane is not None and lane.held >= max(1, most // 2)):
            queue.room.clear()
            try:
                async with asyncio.timeout(_ROOM_SECONDS):
                    await queue.room.wait()
            except TimeoutError:
                self.counters[hub].overflowed += 1
                return
        lane = queue.lanes.get(destination.name)
        if lane is None:
            lane = queue.lanes[destination.name] = ServiceQueue(destination)
        lane.held += 1
        queue.held += 1
        self._append(queue, lane, delivery)

    def _append(self, queue: HubQueue, lane: ServiceQueue, delivery: PushDelivery) -> None:
        lane.queue.append(delivery)
        if lane.running < self._settings.in_flight:
            lane.running += 1
            self._tasks.start(self._run(queue, lane))

    # -- delivering -----------------------------------------------------------------------------

    async def _run(self, queue: HubQueue, lane: ServiceQueue) -> None:
        """One of several tasks that process a service's queue while it is not empty."""
        try:
            while lane.queue:
                delivery = lane.queue.popleft()
                again = False
                try:
                    again = await self._deliver(queue, lane, delivery)
                finally:
                    if not again:
                        queue.release(lane)
        finally:
            lane.running -= 1
            self._forget_empty(lane.destination.hub, queue)

    async def _deliver(self, queue: HubQueue, lane: ServiceQueue, delivery: PushDelivery) -> bool:
        """Returns whether the delivery is to be retried; a timer queues it again."""
        token, note = delivery.token, delivery.content.note
        try:
            attempt = await self._attempt(delivery)
        except HubbubError as error:
            attempt = Attempt("retry", error.code)
        if attempt.outcome != "retry":
            return False
        pause = retry_delay(
            delivery.attempts, randomness.fraction(), longest_seconds=_LONGEST_RETRY_SECONDS
        )
        pause = max(pause, attempt.retry_after_seconds)
        too_late = self._now() + pause * 1000 >= note.expires_at
        if delivery.attempts >= self._settings.tries or too_late:
            self._count(token, note, delivery.attempts, Attempt("retry", "given_up"), "dropped")
            return False
        loop = asyncio.get_running_loop()
        loop.call_later(pause, self._append, queue, lane, delivery)
        return True

    async def _attempt(self, delivery: PushDelivery) -> Attempt:
        """Raises `HubbubError` for failures inside the hub."""
        token, note = delivery.token, delivery.content.note
        delivery.attempts += 1
        if not await self._may_tell(delivery):
            return self._conclude(delivery, Attempt("refused", "no_access"), "dropped")
        if delivery.attempts == 1 and self._is_too_often(token):
            return self._conclude(delivery, Attempt("refused", "too_many_for_token"), "dropped")
        if note.options.ttl and note.expires_at <= self._now():
            return self._conclude(delivery, Attempt("refused", "expired"), "dropped")
        pace = self._pace(token.hub)
        if pace is not None:
            await pace.wait()
        if self._is_erased(token, note):
            return self._conclude(delivery, Attempt("refused", "erased"), "dropped")
        destination = self._sender.destination(token)
        try:
            attempt = await self._sender.attempt(token, destination, delivery.content)
            if attempt.outcome == "renew":
                attempt = await self._sender.attempt(token, destination, delivery.content)
        except NoCredentials as error:
            return self._conclude(delivery, Attempt("refused", str(error)), "dropped")
        if attempt.outcome == "renew":
            attempt = msgspec.structs.replace(attempt, outcome="credentials")
        await self._settle(token, attempt)
        return self._conclude(delivery, attempt, attempt.outcome)

    async def _may_tell(self, delivery: PushDelivery) -> bool:
        """Checks the access again if it may have been revoked while the delivery waited."""
        changes = self._changes_of(delivery.token.hub)
        if delivery.checked == changes or delivery.answer is not None:
            return True
        delivery.checked = changes
        return await self._audience.still_reaches(delivery.token, delivery.content.note)

    def _changes_of(self, hub: str) -> int:
        return self._changes[hub] + self._changes[ANY_HUB]

    async def _settle(self, token: PushToken, attempt: Attempt) -> None:
        """Applies the service's response to the token."""
        now, hub = self._now(), token.hub
        counters = self.counters[hub]
        if attempt.outcome == "ok":
            counters.succeeded_at[token.platform] = now
            if token.failures or now - token.succeeded_at > _NOTED_EVERY_MS:
                fresh = msgspec.structs.replace(
                    token, succeeded_at=now, failures=0, failing_since=0
                )
                self._note_result(fresh)
        elif attempt.outcome == "gone":
            await self._drop(token)
        elif attempt.outcome == "credentials":
            self._alarm(token, attempt)
            refused = after_refusal(self._results.get(hub, {}).get(token.id, token), now)
            if is_hopeless(refused, counters.succeeded_at.get(token.platform, 0)):
                await self._drop(token)
            else:
                self._note_result(refused)

    async def _drop(self, token: PushToken) -> None:
        """Deletes the token, unless it was registered again meanwhile."""
        which = (token.hub, token.platform, token.token)
        await self._store.delete_push_token(*which, token.registered_at)

    def _alarm(self, token: PushToken, attempt: Attempt) -> None:
        """Raises the alarm at most once a minute per hub and platform."""
        now, place = self._clock.monotonic(), (token.hub, token.platform)
        if now - self._alarms.get(place, -_ALARM_SECONDS) >= _ALARM_SECONDS:
            self._alarms[place] = now
            logger.warning(
                "the push service %s does not accept the credentials of hub %r: %s (token %s)",
                token.platform,
                token.hub,
                attempt.reason,
                token.id,
            )

    # -- limits ---------------------------------------------------------------------------------

    def _is_too_often(self, token: PushToken) -> bool:
        return self._buckets.take((token.hub, token.id), 1, self._clock.monotonic()) > 0

    def _pace(self, hub: str) -> Pace | None:
        if hub not in self._paces:
            rate = self._configuration_of(hub).settings.quotas.pushes_per_second
            self._paces[hub] = Pace(rate) if rate else None
        return self._paces[hub]

    # -- what is told ---------------------------------------------------------------------------

    def _conclude(self, delivery: PushDelivery, attempt: Attempt, outcome: str) -> Attempt:
        self._count(delivery.token, delivery.content.note, delivery.attempts, attempt, outcome)
        return attempt

    def _count(
        self, token: PushToken, note: PushNote, number: int, attempt: Attempt, outcome: str
    ) -> None:
        counters, platform = self.counters[token.hub], token.platform
        counters.outcomes[platform, outcome] += 1
        if self._is_erased(token, note):
            return  # the journal would name the user again
        peer = self._sender.destination(token).name
        if outcome == "ok":
            counters.answered.setdefault(platform, Durations()).took(attempt.seconds or 0.0)
        else:
            error = LastPushError(self._now(), peer, attempt.reason, attempt.status)
            counters.errors[platform] = error
        if self._journal.enabled and not self._is_quiet(note):
            self._journal.record(
                JournalEvent(
                    PUSH_ATTEMPT,
                    int(self._clock.now() * 1e6),
                    token.hub,
                    channel=note.channel or None,
                    user=token.user_id,
                    technology=platform,
                    message_id=note.message_id,
                    serial=note.serial or None,
                    published_at=note.published_at * 1000,
                    subscription=token.id,
                    attempt=number,
                    outcome=outcome,
                    status=attempt.status,
                    reason=attempt.reason or None,
                    size=attempt.size or None,
                    duration=None if attempt.seconds is None else int(attempt.seconds * 1e6),
                    peer=peer,
                )
            )

    def _is_erased(self, token: PushToken, note: PushNote) -> bool:
        queue = self.queues.get(token.hub)
        return queue is not None and queue.is_erased(token, note)

    def _is_quiet(self, note: PushNote) -> bool:
        try:
            return self._configuration_of(note.hub).rules_for(note.channel).journal == "off"
        except HubbubError:
            return True

    def _note_result(self, token: PushToken) -> None:
        results = self._results.get(token.hub)
        if results is None:
            results = self._results[token.hub] = {}
            self._tasks.start(self._write_results(token.hub))
        results[token.id] = token

    async def _write_results(self, hub: str) -> None:
        """Stores results in batches, after a short delay."""
        await asyncio.sleep(_NOTE_SECONDS)
        results = list(self._results.pop(hub).values())
        try:
            for start in range(0, len(results), 100):
                await self._store.note_push_results(hub, results[start : start + 100])
        except HubbubError as error:
            logger.warning("results of pushes could not be stored: %s", error)

    # -- life -----------------------------------------------------------------------------------

    def _forget_empty(self, hub: str, queue: HubQueue) -> None:
        if not queue.waiting and not queue.held and not queue.spreading:
            self.queues.pop(hub, None)

    async def settle(self) -> None:
        """Waits until nothing is in progress; for tests."""
        await self._tasks.settle()

    async def stop(self) -> None:
        """Drops queued pushes, and waits briefly for those in progress."""
        await self._tasks.settle_so_far(_STOP_SECONDS if any(self._running()) else 0)
        await self._tasks.end()
        await self._followings.stop()

    def _running(self) -> list[int]:
        return [lane.running for queue in self.queues.values() for lane in queue.lanes.values()]

    def _now(self) -> int:
        return int(self._clock.now() * 1000)
