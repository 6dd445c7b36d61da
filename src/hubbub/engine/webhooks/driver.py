"""The driver: sends the messages of a node's channels to their webhooks, in order per webhook.

A webhook without new messages has neither a task nor a timer. Delivered messages are acknowledged
shortly afterwards, in batches; the next driver sends again what a crashed one had not
acknowledged."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable
from functools import partial

import msgspec

from hubbub.domain.errors import HUB_AWAY, HubbubError, NotSubscribed, TopicNotFound
from hubbub.domain.messages import Message
from hubbub.domain.names import partition_of
from hubbub.domain.topics import (
    Acknowledge,
    DescribeSubscription,
    DescribeWebhook,
    GetMessages,
    ReplayWebhook,
    SubscriptionInfo,
    TopicPinged,
    WebhookChanged,
)
from hubbub.domain.webhooks import PendingVerification, Replayed, Webhook, WebhookStatus
from hubbub.engine.access.registry import AccessRegistry
from hubbub.engine.access.revocations import ANY_HUB
from hubbub.engine.channels.channel import Channel
from hubbub.engine.channels.parts import OwnerParts
from hubbub.engine.channels.rooms import OwnerRoom
from hubbub.engine.outward.attempts import Expired, ReceiverEnded, Stopped
from hubbub.engine.outward.gate import OutgoingGate
from hubbub.engine.outward.limits import WebhookLimits
from hubbub.engine.outward.retrying import GivenUp
from hubbub.engine.webhooks.acknowledging import Acknowledger
from hubbub.engine.webhooks.attempts import Attempts
from hubbub.engine.webhooks.context import DriverContext
from hubbub.engine.webhooks.counting import HubWebhooks, survey
from hubbub.engine.webhooks.driven import DrivenWebhook
from hubbub.engine.webhooks.ending import deny, end_webhook
from hubbub.engine.webhooks.fetching import Fetcher, Publish
from hubbub.engine.webhooks.loading import load_places
from hubbub.engine.webhooks.replaying import DeadLetterReplayer
from hubbub.engine.webhooks.transmitting import make_transmit
from hubbub.engine.webhooks.verifying import Verifier
from hubbub.ports.journal import Journal
from hubbub.ports.spans import Spans
from hubbub.tasks import TaskSet

logger = logging.getLogger(__name__)

_AT_ONCE = 16
"""Messages read from the store at once for one webhook."""
_AGAIN_SECONDS = 1.0
"""Pause after the store or the owner failed."""
_SWEEP_SECONDS = 5.0


class Driver(OwnerRoom):
    """Drives the webhooks whose channels this node owns."""

    def __init__(
        self,
        parts: OwnerParts,
        *,
        access: AccessRegistry,
        outgoing: OutgoingGate,
        limits: WebhookLimits,
        publish_fetched: Publish,
        journal: Journal,
        spans: Spans | None = None,
    ) -> None:
        self.context = DriverContext(
            parts.store,
            parts.clock,
            parts.bus.ask,
            parts.configuration_of,
            outgoing,
            limits,
            journal,
            make_transmit(outgoing, spans),
        )
        self._access = access
        self.outgoing = outgoing
        self.counters = self.context.counters
        self.attempts = Attempts(self.context)
        self._verifier = Verifier(self.context)
        self._fetcher = Fetcher(self.context, publish_fetched)
        self._replayer = DeadLetterReplayer(self.context, self.attempts)
        self._driven: dict[tuple[str, str], DrivenWebhook] = {}
        """Webhooks by hub and id."""
        self._by_channel: dict[tuple[str, str], dict[str, DrivenWebhook]] = {}
        self._partitions: set[int] = set()
        self._acknowledger = Acknowledger(parts.bus.ask, self._lost)
        self._changes = asyncio.Lock()
        self._tasks = TaskSet()
        self._next_sweep = 0.0
        self._closing = False
        self.owner_requests = {
            WebhookChanged: self._told_of_change,
            TopicPinged: self._pinged,
            DescribeWebhook: self._status_of,
            ReplayWebhook: self._replay,
        }

    def survey(self) -> dict[str, HubWebhooks]:
        """The webhooks that this node drives, by hub."""
        return survey(self._driven.values())

    def pending_fetches(self) -> Counter[str]:
        """The number of this node's topics that are still to be fetched, by hub."""
        return self._fetcher.pending()

    def count(self) -> int:
        """The number of webhooks that this node drives."""
        return len(self._driven)

    # -- life -----------------------------------------------------------------------------------

    def owned(self, partitions: Collection[int]) -> None:
        self._tasks.start(self._start_at_last(partitions))

    async def _start_at_last(self, partitions: Collection[int]) -> None:
        """Retries while the store is unavailable."""
        while not self._closing:
            try:
                await self.start(partitions)
                return
            except HubbubError as error:
                logger.warning("webhooks cannot be read yet: %s", error)
                self._forget(set(partitions))
            await asyncio.sleep(_AGAIN_SECONDS)

    async def released(self, partitions: Collection[int]) -> None:
        """Stops driving these partitions; the new owner sends unacknowledged messages again."""
        self._forget(set(partitions))

    def _forget(self, partitions: set[int]) -> list[DrivenWebhook]:
        self._partitions -= partitions
        driven_webhooks = [
            p for p in self._driven.values() if self._partition(p.webhook) in partitions
        ]
        for driven in driven_webhooks:
            self._remove(driven)
        self._verifier.cancel(partitions)
        self._fetcher.cancel(partitions)
        return driven_webhooks

    async def start(self, partitions: Iterable[int]) -> None:
        """Drives the webhooks of these partitions from their cursors on. Call it after the owner
        has taken the partitions over."""
        fresh = set(partitions) - self._partitions
        self._partitions |= fresh
        if fresh:
            await self._load(partitions=sorted(fresh))
        for topic in await self.context.store.read_pinged(sorted(fresh)) if fresh else ():
            self._fetcher.start(topic.hub, topic.channel)

    async def hub_resumed(self, hub: str) -> None:
        """Raises `StoreUnavailable`; call it again in that case."""
        for driven in [p for (of_hub, _), p in self._driven.items() if of_hub == hub]:
            self._remove(driven)
        await self._load(hub=hub)
        for topic in await self.context.store.read_pinged(sorted(self._partitions)):
            if topic.hub == hub:
                self._fetcher.start(topic.hub, topic.channel)

    async def hub_suspended(self, hub: str) -> None:
        await self._acknowledger.drop(hub)

    async def _load(self, hub: str | None = None, partitions: list[int] | None = None) -> None:
        """Loads the webhooks of a hub, or of partitions."""
        loaded = []
        async for webhook in self._saved(hub, partitions):
            known = (webhook.hub, webhook.id) in self._driven
            is_ours = webhook.state != "paused" and self._partition(webhook) in self._partitions
            if not known and is_ours:
                driven = self._add(await self._with_lease_cut(webhook))
                driven.fetching = True  # until it is known where it stands
                loaded.append(driven)
        await load_places(self.context.store, loaded)
        for driven in loaded:
            driven.fetching = False
            if driven.gone:
                self._remove(driven)
            elif driven.behind:
                self._kick(driven)
            self._verify(driven)

    async def _with_lease_cut(self, webhook: Webhook) -> Webhook:
        """If the maximum lease was lowered below this webhook's lease, asks the callback to confirm
        the shorter one."""
        if webhook.pending is not None or not self.context.exceeds_longest_lease(webhook):
            return webhook
        seconds = int(self.context.limits.max_lease_seconds)
        pending = PendingVerification(
            "subscribe", self.context.now(), seconds, webhook.secret, webhook.algorithm
        )
        changed = msgspec.structs.replace(webhook, pending=pending)
        await self.context.store.save_webhook(changed)
        return changed

    async def stop(self) -> None:
        """Waits, within a bound, for requests in progress, and acknowledges delivered messages."""
        self._closing = True
        driven_webhooks = list(self._driven.values())
        tasks = [driven.task for driven in driven_webhooks if driven.task is not None]
        for driven in driven_webhooks:
            self._remove(driven, cancel=not driven.sending)
        if tasks:
            await asyncio.wait(tasks, timeout=self.context.limits.stop_seconds)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        self._verifier.cancel(self._partitions)
        self._fetcher.cancel(self._partitions)
        await asyncio.gather(*(self._acknowledger.now(driven) for driven in driven_webhooks))
        await self._acknowledger.close()
        await self._tasks.end()

    async def _saved(self, hub: str | None, partitions: list[int] | None) -> AsyncIterator[Webhook]:
        after: tuple[str, str] | None = None
        while True:
            page = await self.context.store.read_webhooks(
                hub, partitions=partitions, after=after, limit=1000
            )
            for webhook in page:
                yield webhook
            if len(page) < 1000:
                return
            after = (page[-1].hub, page[-1].id)

    @staticmethod
    def _partition(webhook: Webhook) -> int:
        return partition_of(webhook.hub, webhook.channel)

    # -- what the owner says --------------------------------------------------------------------

    def stored(self, channel: Channel, message: Message) -> None:
        driven_webhooks = self._by_channel.get((message.hub, message.channel))
        if driven_webhooks is not None:
            for driven in driven_webhooks.values():
                driven.take(message)
                if driven.task is None and not driven.fetching:
                    self._kick(driven)

    def messages_erased(self, hub: str, channel: str) -> None:
        """Cancels attempts in progress and reads the queue again from the store. A message whose
        attempt is cancelled may be sent again at once."""
        for driven in self._by_channel.get((hub, channel), {}).values():
            driven.forget_queue()
            if driven.task is None:
                self._kick(driven)
            else:
                driven.task.add_done_callback(partial(self._kick_again, driven))
                driven.task.cancel()

    def _kick_again(self, driven: DrivenWebhook, _ended: asyncio.Task[None]) -> None:
        self._kick(driven)

    def hub_changed(self, hub: str) -> None:
        if hub == ANY_HUB:
            return
        self.attempts.hub_changed(hub)
        try:
            self.context.configuration_of(hub)
        except HUB_AWAY:
            for driven in [p for (of_hub, _), p in self._driven.items() if of_hub == hub]:
                self._remove(driven)
            self._verifier.cancel_hub(hub)
            self._fetcher.cancel_hub(hub)
            self.counters.pop(hub, None)
        else:
            for driven in [p for (of_hub, _), p in self._driven.items() if of_hub == hub]:
                driven.paused = False
                if (driven.behind or driven.queue) and not driven.fetching:
                    self._kick(driven)  # its channel may store again, or the quota be larger

    def channel_changed(self, hub: str, channel: str) -> None:
        self.hub_changed(hub)

    async def _pinged(self, request: TopicPinged) -> None:
        if partition_of(request.hub, request.channel) in self._partitions:
            self._fetcher.start(request.hub, request.channel)

    async def _replay(self, request: ReplayWebhook) -> Replayed:
        """Replays dead letters. Raises `NotSubscribed`."""
        driven = self._find(request.hub, request.webhook)
        return await self._replayer.replay(driven, request.after, request.only)

    async def _status_of(self, request: DescribeWebhook) -> WebhookStatus:
        """The state of a webhook. Raises `NotSubscribed`."""
        driven = self._find(request.hub, request.webhook)
        info = await self._describe(driven)
        head, dead = (info.head, info.dead_letters) if info else (driven.position, 0)
        return driven.described(head, dead)

    def _find(self, hub: str, webhook: str) -> DrivenWebhook:
        driven = self._driven.get((hub, webhook))
        if driven is None:
            raise NotSubscribed(f"hub {hub!r} drives no webhook {webhook[:64]!r}")
        return driven

    async def _told_of_change(self, request: WebhookChanged) -> None:
        if self._closing:
            return
        async with self._changes:
            webhook = await self.context.store.read_webhook(request.hub, request.webhook)
        driven = self._driven.get((request.hub, request.webhook))
        if webhook is None or webhook.state == "paused":
            if driven is not None:
                self._remove(driven)
        elif self._partition(webhook) in self._partitions:
            if driven is None:
                driven = self._add(webhook)
                driven.behind = True
            else:
                host = self.outgoing.destination(webhook.hub, "webhook", webhook.host)
                driven.configure(webhook, host, self.context.limits.public_url)
                self._access.review_one(webhook.hub, driven)
            if driven.behind and not driven.fetching:
                self._kick(driven)
            self._verify(driven)

    def _verify(self, driven: DrivenWebhook) -> None:
        if driven.webhook.pending is not None and not driven.gone:
            self._verifier.start(driven.webhook)

    def _add(self, webhook: Webhook) -> DrivenWebhook:
        known = self._driven.get((webhook.hub, webhook.id))
        if known is not None:
            return known
        driven = DrivenWebhook(
            webhook,
            self.outgoing.destination(webhook.hub, "webhook", webhook.host),
            self.context.limits.public_url,
            self._refuse,
        )
        self._driven[webhook.hub, webhook.id] = driven
        self._by_channel.setdefault((webhook.hub, webhook.channel), {})[webhook.id] = driven
        self._access.add(webhook.hub, driven)
        return driven

    def _remove(self, driven: DrivenWebhook, cancel: bool = True) -> None:
        """Stops driving the webhook on this node."""
        driven.gone = True
        webhook = driven.webhook
        self._access.remove(webhook.hub, driven)
        if self._driven.get((webhook.hub, webhook.id)) is driven:
            del self._driven[webhook.hub, webhook.id]
            of_channel = self._by_channel[webhook.hub, webhook.channel]
            del of_channel[webhook.id]
            if not of_channel:
                del self._by_channel[webhook.hub, webhook.channel]
        if cancel and driven.task is not None and driven.task is not asyncio.current_task():
            driven.task.cancel()

    # -- sending --------------------------------------------------------------------------------

    def _kick(self, driven: DrivenWebhook) -> None:
        if driven.task is None and driven.active and not (driven.paused or self._closing):
            driven.task = asyncio.get_running_loop().create_task(self._drive(driven))

    async def _drive(self, driven: DrivenWebhook) -> None:
        """Sends one webhook's messages until none is left."""
        try:
            while not driven.gone:
                if driven.queue:
                    await self._send_next(driven)
                elif driven.behind:
                    await self._fetch(driven)
                else:
                    break
        except (NotSubscribed, TopicNotFound) as error:
            self._lost(driven, error)
        except HubbubError as error:
            logger.warning("webhook %s waits: %s", driven.webhook.id, error)
            self._hindered(driven)
        except Exception:
            logger.exception("webhook %s failed, will try again", driven.webhook.id)
            self._hindered(driven)
        finally:
            driven.task = None

    def _hindered(self, driven: DrivenWebhook) -> None:
        """Pauses the webhook after a failure inside the hub, such as a dead letter over the
        quota."""
        asyncio.get_running_loop().call_later(
            driven.pause(self.context.limits.longest_retry_seconds), self._resume, driven
        )

    def _resume(self, driven: DrivenWebhook) -> None:
        driven.paused = False
        self._kick(driven)

    async def _send_next(self, driven: DrivenWebhook) -> None:
        message = driven.queue[0]
        try:
            await self.attempts.deliver(driven, message)
        except GivenUp:
            await self._dead_letter(driven, message)
        except Expired:
            await self.context.ask(Acknowledge(driven.key, (message.serial,), expired=True))
        except ReceiverEnded as ended:
            await self._end(driven, str(ended))
            return
        except Stopped:
            return
        driven.hindrances = 0
        if driven.queue and driven.queue[0] is message:  # else the channel began anew meanwhile
            driven.queue.popleft()
            driven.position = message.serial
            self._acknowledger.soon(driven)

    async def _fetch(self, driven: DrivenWebhook) -> None:
        driven.behind, driven.fetching = False, True
        try:
            found = await self.context.ask(
                GetMessages(driven.key, driven.reader, _AT_ONCE, after=driven.queued)
            )
            assert isinstance(found, tuple)
            if found:
                driven.queue.extend(article.message for article in found)
                driven.queued = found[-1].message.serial
                driven.behind = True  # there may be more, however few these are
            else:
                info = await self._describe(driven)
                if info is not None and info.floor > driven.queued and not driven.behind:
                    driven.begin_at(info.floor)
        except BaseException:
            driven.behind = True
            raise
        finally:
            driven.fetching = False

    async def _dead_letter(self, driven: DrivenWebhook, message: Message) -> None:
        await self.context.ask(Acknowledge(driven.key, (message.serial,), dead=True))
        self.counters[driven.webhook.hub].dead_letters += 1

    def _refuse(self, driven: DrivenWebhook, error: HubbubError) -> None:
        """Ends a webhook whose creator may no longer read the channel. The webhooks of a deleted
        hub are deleted with the hub."""
        if not driven.gone:
            self._remove(driven)
            if not isinstance(error, HUB_AWAY):
                self._tasks.start(self._end_refused(driven, error))

    async def _end_refused(self, driven: DrivenWebhook, error: HubbubError) -> None:
        ended = await self._end(driven, error.message)
        if ended and driven.webhook.kind == "websub":
            hub = self.context.configuration_of(driven.webhook.hub)
            about = (hub, driven.webhook.callback, driven.webhook.topic, error.message)
            await deny(self.outgoing, self.context.limits, *about)

    async def _end(self, driven: DrivenWebhook, reason: str) -> bool:
        """Ends a webhook that expired or whose receiver declined it. Returns False if it had
        already ended."""
        logger.info("webhook %s ends: %s", driven.webhook.id, reason)
        self.counters[driven.webhook.hub].ended += 1
        self._remove(driven)
        try:
            return await end_webhook(self.context.ask, self.context.store, driven.webhook)
        except HubbubError as error:
            logger.warning("webhook %s is not removed yet: %s", driven.webhook.id, error)
            return True

    def _lost(self, driven: DrivenWebhook, error: HubbubError) -> None:
        """Called when the webhook's cursor is missing, or the channel currently stores nothing."""
        if isinstance(error, NotSubscribed):
            self._remove(driven, cancel=False)
        else:
            driven.behind = True

    async def _describe(self, driven: DrivenWebhook) -> SubscriptionInfo | None:
        try:
            info = await self.context.ask(DescribeSubscription(driven.key))
        except (NotSubscribed, TopicNotFound):
            return None
        assert isinstance(info, SubscriptionInfo)
        return info

    # -- time -----------------------------------------------------------------------------------

    def sweep(self) -> None:
        """Called every second: ends webhooks whose leases expired."""
        now = self.context.clock.monotonic()
        if now < self._next_sweep or self._closing:
            return
        self._next_sweep = now + _SWEEP_SECONDS
        moment = self.context.now()
        for driven in list(self._driven.values()):
            expires_at = driven.webhook.expires_at
            if expires_at is not None and expires_at <= moment and driven.active:
                self._tasks.start(self._end(driven, "its lease is over"))
