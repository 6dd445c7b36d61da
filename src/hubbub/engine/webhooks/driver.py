"""The driver: sends the messages of a node's channels to their webhooks, each in order.

A webhook without new messages has neither task nor timer. What arrived is acknowledged a moment
later, many at a time; what was not acknowledged when a driver died is sent again by the next one.
"""

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
    TopicAnswer,
    TopicPinged,
    WebhookChanged,
    WebhookRequest,
)
from hubbub.domain.webhooks import Pending, Webhook
from hubbub.engine.access.registry import AccessRegistry
from hubbub.engine.access.revocations import ANY_HUB
from hubbub.engine.directory import ConfigurationOf
from hubbub.engine.outgoing import OutgoingGate
from hubbub.engine.outward.attempts import Ended, Expired, Stopped
from hubbub.engine.outward.retrying import GivenUp
from hubbub.engine.webhooks.acknowledging import Acknowledger
from hubbub.engine.webhooks.attempts import Attempts
from hubbub.engine.webhooks.context import DriverContext
from hubbub.engine.webhooks.counting import HubPushes, survey
from hubbub.engine.webhooks.ending import deny, end_webhook
from hubbub.engine.webhooks.fetching import Fetcher, Publish
from hubbub.engine.webhooks.limits import WebhookLimits
from hubbub.engine.webhooks.loading import load_places
from hubbub.engine.webhooks.push import Push
from hubbub.engine.webhooks.replaying import DeadLetterReplayer
from hubbub.engine.webhooks.transmitting import make_transmit
from hubbub.engine.webhooks.verifying import Verifier
from hubbub.ports.bus import Topic
from hubbub.ports.clock import Clock
from hubbub.ports.journal import Journal
from hubbub.ports.spans import Spans
from hubbub.ports.storage import Store
from hubbub.tasks import TaskSet

logger = logging.getLogger(__name__)

_AT_ONCE = 16
"""Messages that are read from the store at once for one webhook."""
_AGAIN_SECONDS = 1.0
"""After the store or the owner could not do what was asked."""
_SWEEP_SECONDS = 5.0


class Driver:
    """Of one node; on the event loop's thread. Implements
    `engine.channels.webhook_driving.WebhookDriving`."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        topic: Topic,
        configuration_of: ConfigurationOf,
        access: AccessRegistry,
        outgoing: OutgoingGate,
        limits: WebhookLimits,
        publish_fetched: Publish,
        journal: Journal,
        spans: Spans | None = None,
    ) -> None:
        """`topic` reaches the owner of the channels, which is on the same node."""
        self.context = DriverContext(
            store,
            clock,
            topic,
            configuration_of,
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
        self._pushes: dict[tuple[str, str], Push] = {}
        """By hub and id."""
        self._by_channel: dict[tuple[str, str], dict[str, Push]] = {}
        self._partitions: set[int] = set()
        self._acknowledger = Acknowledger(topic, self._lost)
        self._changes = asyncio.Lock()
        self._tasks = TaskSet()
        self._next_sweep = 0.0
        self._closing = False

    def survey(self) -> dict[str, HubPushes]:
        """The webhooks that this node drives, by hub."""
        return survey(self._pushes.values())

    def pending_fetches(self) -> Counter[str]:
        """Topics of the node that are still to be fetched, by hub."""
        return self._fetcher.pending()

    def count(self) -> int:
        """Webhooks that are driven here."""
        return len(self._pushes)

    # -- life -----------------------------------------------------------------------------------

    def owned(self, partitions: Collection[int]) -> None:
        self._tasks.start(self._start_at_last(partitions))

    async def _start_at_last(self, partitions: Collection[int]) -> None:
        """Also where the store is away for a while."""
        while not self._closing:
            try:
                await self.start(partitions)
                return
            except HubbubError as error:
                logger.warning("webhooks cannot be read yet: %s", error.message)
                self._forget(set(partitions))
            await asyncio.sleep(_AGAIN_SECONDS)

    def released(self, partitions: Collection[int]) -> None:
        """The new owner sends unacknowledged messages again."""
        self._forget(set(partitions))

    def _forget(self, partitions: set[int]) -> list[Push]:
        self._partitions -= partitions
        pushes = [p for p in self._pushes.values() if self._partition(p.webhook) in partitions]
        for push in pushes:
            self._remove(push)
        self._verifier.cancel(partitions)
        self._fetcher.cancel(partitions)
        return pushes

    async def start(self, partitions: Iterable[int]) -> None:
        """Drive the webhooks of these partitions, from where they stand. Call it after the owner
        began to own them."""
        fresh = set(partitions) - self._partitions
        self._partitions |= fresh
        if fresh:
            await self._load(partitions=sorted(fresh))
        for topic in await self.context.store.read_pinged(sorted(fresh)) if fresh else ():
            self._fetcher.start(topic.hub, topic.channel)

    async def hub_resumed(self, hub: str) -> None:
        """Raises `StoreUnavailable`; call it again then."""
        for push in [p for (of_hub, _), p in self._pushes.items() if of_hub == hub]:
            self._remove(push)
        await self._load(hub=hub)
        for topic in await self.context.store.read_pinged(sorted(self._partitions)):
            if topic.hub == hub:
                self._fetcher.start(topic.hub, topic.channel)

    async def settle_hub(self, hub: str) -> None:
        await self._acknowledger.drop(hub)

    async def _load(self, hub: str | None = None, partitions: list[int] | None = None) -> None:
        """The webhooks of a hub, or of partitions."""
        loaded = []
        async for webhook in self._saved(hub, partitions):
            known = (webhook.hub, webhook.id) in self._pushes
            driven = webhook.state != "paused" and self._partition(webhook) in self._partitions
            if not known and driven:
                push = self._add(await self._with_lease_cut(webhook))
                push.fetching = True  # until it is known where it stands
                loaded.append(push)
        await load_places(self.context.store, loaded)
        for push in loaded:
            push.fetching = False
            if push.gone:
                self._remove(push)
            elif push.behind:
                self._kick(push)
            self._verify(push)

    async def _with_lease_cut(self, webhook: Webhook) -> Webhook:
        """A callback that was promised a longer lease than the longest one now (the setting was
        lowered) is asked to confirm the shorter lease."""
        if webhook.pending is not None or not self.context.exceeds_longest_lease(webhook):
            return webhook
        seconds = int(self.context.limits.max_lease_seconds)
        pending = Pending(
            "subscribe", self.context.now(), seconds, webhook.secret, webhook.algorithm
        )
        changed = msgspec.structs.replace(webhook, pending=pending)
        await self.context.store.save_webhook(changed)
        return changed

    async def stop(self) -> None:
        """Let the requests under way end, within a bound, and acknowledge what arrived."""
        self._closing = True
        pushes = list(self._pushes.values())
        tasks = [push.task for push in pushes if push.task is not None]
        for push in pushes:
            self._remove(push, cancel=not push.sending)
        if tasks:
            await asyncio.wait(tasks, timeout=self.context.limits.stop_seconds)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        self._verifier.cancel(self._partitions)
        self._fetcher.cancel(self._partitions)
        await asyncio.gather(*(self._acknowledger.now(push) for push in pushes))
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

    def delivered(self, message: Message) -> None:
        pushes = self._by_channel.get((message.hub, message.channel))
        if pushes is not None:
            for push in pushes.values():
                push.take(message)
                if push.task is None and not push.fetching:
                    self._kick(push)

    def erased(self, hub: str, channel: str) -> None:
        """An attempt under way is given up: another one of the same message may follow at once."""
        for push in self._by_channel.get((hub, channel), {}).values():
            push.forget_queue()
            if push.task is None:
                self._kick(push)
            else:
                push.task.add_done_callback(partial(self._kick_again, push))
                push.task.cancel()

    def _kick_again(self, push: Push, _ended: asyncio.Task[None]) -> None:
        self._kick(push)

    def hub_changed(self, hub: str) -> None:
        if hub == ANY_HUB:
            return
        self.attempts.hub_changed(hub)
        try:
            self.context.configuration_of(hub)
        except HUB_AWAY:
            for push in [p for (of_hub, _), p in self._pushes.items() if of_hub == hub]:
                self._remove(push)
            self._verifier.cancel_hub(hub)
            self._fetcher.cancel_hub(hub)
            self.counters.pop(hub, None)
        else:
            for push in [p for (of_hub, _), p in self._pushes.items() if of_hub == hub]:
                push.paused = False
                if (push.behind or push.queue) and not push.fetching:
                    self._kick(push)  # its channel may store again, or the quota be larger

    async def serve(self, request: WebhookRequest) -> TopicAnswer:
        if isinstance(request, WebhookChanged):
            if not self._closing:
                await self._changed(request)
            return None
        if isinstance(request, TopicPinged):
            if partition_of(request.hub, request.channel) in self._partitions:
                self._fetcher.start(request.hub, request.channel)
            return None
        push = self._pushes.get((request.hub, request.webhook))
        if push is None:
            raise NotSubscribed(f"hub {request.hub!r} drives no webhook {request.webhook[:64]!r}")
        if isinstance(request, ReplayWebhook):
            return await self._replayer.replay(push, request.after, request.only)
        assert isinstance(request, DescribeWebhook)
        info = await self._describe(push)
        head, dead = (info.head, info.dead_letters) if info else (push.position, 0)
        return push.described(head, dead)

    async def _changed(self, request: WebhookChanged) -> None:
        async with self._changes:
            webhook = await self.context.store.read_webhook(request.hub, request.webhook)
        push = self._pushes.get((request.hub, request.webhook))
        if webhook is None or webhook.state == "paused":
            if push is not None:
                self._remove(push)
        elif self._partition(webhook) in self._partitions:
            if push is None:
                push = self._add(webhook)
                push.behind = True
            else:
                host = self.outgoing.destination(webhook.hub, "webhook", webhook.host)
                push.configure(webhook, host, self.context.limits.public_url)
                self._access.review_one(webhook.hub, push)
            if push.behind and not push.fetching:
                self._kick(push)
            self._verify(push)

    def _verify(self, push: Push) -> None:
        if push.webhook.pending is not None and not push.gone:
            self._verifier.start(push.webhook)

    def _add(self, webhook: Webhook) -> Push:
        known = self._pushes.get((webhook.hub, webhook.id))
        if known is not None:
            return known
        push = Push(
            webhook,
            self.outgoing.destination(webhook.hub, "webhook", webhook.host),
            self.context.limits.public_url,
            self._refuse,
        )
        self._pushes[webhook.hub, webhook.id] = push
        self._by_channel.setdefault((webhook.hub, webhook.channel), {})[webhook.id] = push
        self._access.add(webhook.hub, push)
        return push

    def _remove(self, push: Push, cancel: bool = True) -> None:
        """This node drives the webhook no longer."""
        push.gone = True
        webhook = push.webhook
        self._access.remove(webhook.hub, push)
        if self._pushes.get((webhook.hub, webhook.id)) is push:
            del self._pushes[webhook.hub, webhook.id]
            of_channel = self._by_channel[webhook.hub, webhook.channel]
            del of_channel[webhook.id]
            if not of_channel:
                del self._by_channel[webhook.hub, webhook.channel]
        if cancel and push.task is not None and push.task is not asyncio.current_task():
            push.task.cancel()

    # -- sending --------------------------------------------------------------------------------

    def _kick(self, push: Push) -> None:
        if push.task is None and push.active and not (push.paused or self._closing):
            push.task = asyncio.get_running_loop().create_task(self._drive(push))

    async def _drive(self, push: Push) -> None:
        """Work for one webhook until there is nothing left to do."""
        try:
            while not push.gone:
                if push.queue:
                    await self._send_next(push)
                elif push.behind:
                    await self._fetch(push)
                else:
                    break
        except (NotSubscribed, TopicNotFound) as error:
            self._lost(push, error)
        except HubbubError as error:
            logger.warning("webhook %s waits: %s", push.webhook.id, error.message)
            self._hindered(push)
        except Exception:
            logger.exception("webhook %s failed, will try again", push.webhook.id)
            self._hindered(push)
        finally:
            push.task = None

    def _hindered(self, push: Push) -> None:
        """The hub itself cannot go on, as where a dead letter is over the quota."""
        asyncio.get_running_loop().call_later(
            push.pause(self.context.limits.longest_retry_seconds), self._resume, push
        )

    def _resume(self, push: Push) -> None:
        push.paused = False
        self._kick(push)

    async def _send_next(self, push: Push) -> None:
        message = push.queue[0]
        try:
            await self.attempts.deliver(push, message)
        except GivenUp:
            await self._dead_letter(push, message)
        except Expired:
            await self.context.topic(Acknowledge(push.key, (message.serial,), expired=True))
        except Ended as ended:
            await self._end(push, str(ended))
            return
        except Stopped:
            return
        push.hindrances = 0
        if push.queue and push.queue[0] is message:  # else the channel began anew meanwhile
            push.queue.popleft()
            push.position = message.serial
            self._acknowledger.soon(push)

    async def _fetch(self, push: Push) -> None:
        push.behind, push.fetching = False, True
        try:
            found = await self.context.topic(
                GetMessages(push.key, push.reader, _AT_ONCE, after=push.queued)
            )
            assert isinstance(found, tuple)
            if found:
                push.queue.extend(article.message for article in found)
                push.queued = found[-1].message.serial
                push.behind = True  # there may be more, however few these are
            else:
                info = await self._describe(push)
                if info is not None and info.floor > push.queued and not push.behind:
                    push.begin_at(info.floor)
        except BaseException:
            push.behind = True
            raise
        finally:
            push.fetching = False

    async def _dead_letter(self, push: Push, message: Message) -> None:
        await self.context.topic(Acknowledge(push.key, (message.serial,), dead=True))
        self.counters[push.webhook.hub].dead_letters += 1

    def _refuse(self, push: Push, error: HubbubError) -> None:
        """The webhook's creator may not read the channel any more: nothing more is sent from now
        on, and the webhook ends. The webhooks of a deleted hub go with the hub."""
        if not push.gone:
            self._remove(push)
            if not isinstance(error, HUB_AWAY):
                self._tasks.start(self._end_refused(push, error))

    async def _end_refused(self, push: Push, error: HubbubError) -> None:
        ended = await self._end(push, error.message)
        if ended and push.webhook.kind == "websub":
            hub = self.context.configuration_of(push.webhook.hub)
            about = (hub, push.webhook.callback, push.webhook.topic, error.message)
            await deny(self.outgoing, self.context.limits, *about)

    async def _end(self, push: Push, reason: str) -> bool:
        """The receiver does not want it any more, or its time is over. Whether nobody else ended it
        before."""
        logger.info("webhook %s ends: %s", push.webhook.id, reason)
        self.counters[push.webhook.hub].ended += 1
        self._remove(push)
        try:
            return await end_webhook(self.context.topic, self.context.store, push.webhook)
        except HubbubError as error:
            logger.warning("webhook %s is not removed yet: %s", push.webhook.id, error.message)
            return True

    def _lost(self, push: Push, error: HubbubError) -> None:
        """The webhook's cursor is gone, or the channel does not store for now."""
        if isinstance(error, NotSubscribed):
            self._remove(push, cancel=False)
        else:
            push.behind = True

    async def _describe(self, push: Push) -> SubscriptionInfo | None:
        try:
            info = await self.context.topic(DescribeSubscription(push.key))
        except (NotSubscribed, TopicNotFound):
            return None
        assert isinstance(info, SubscriptionInfo)
        return info

    # -- time -----------------------------------------------------------------------------------

    def sweep(self) -> None:
        """Called every second: leases that are over."""
        now = self.context.clock.monotonic()
        if now < self._next_sweep or self._closing:
            return
        self._next_sweep = now + _SWEEP_SECONDS
        moment = self.context.now()
        for push in list(self._pushes.values()):
            expires_at = push.webhook.expires_at
            if expires_at is not None and expires_at <= moment and push.active:
                self._tasks.start(self._end(push, "its lease is over"))
