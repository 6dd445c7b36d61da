"""Webhooks and their topics: who may register, publish and subscribe; the one door for gateways."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import secrets
from typing import Literal

import msgspec

from hubbub.domain.callbacks import check_callback, literal_address
from hubbub.domain.errors import (
    HubbubError,
    NotPermitted,
    NotSubscribed,
    QuotaExceeded,
    TopicExists,
    TopicNotFound,
)
from hubbub.domain.names import check_name
from hubbub.domain.permissions import Identity, Level, may_publish, may_subscribe
from hubbub.domain.requests import PublishItem
from hubbub.domain.topics import (
    SubscribeTopic,
    SubscriptionKey,
    SubscriptionOptions,
    UnsubscribeTopic,
    dead_letter_channel,
    principal_of,
)
from hubbub.domain.webhooks import (
    WEBHOOK_OWNER,
    Algorithm,
    Kind,
    Webhook,
    WebhookStatus,
    WebTopic,
    check_key,
    check_secret,
    lease_seconds,
    webhook_id,
)
from hubbub.engine.hub import Hub
from hubbub.engine.topic_making import TopicMaker
from hubbub.engine.topics import Topics
from hubbub.engine.webhooks.limits import MAX_WEBHOOKS, WebhookLimits
from hubbub.ports.bus import Bus, PublishOutcome
from hubbub.ports.clock import Clock
from hubbub.ports.store import Store

_KEY_BYTES = 24
_REMEMBER_SECONDS = 5.0
_MOST_REMEMBERED = 10_000


class WebhookRequest(msgspec.Struct, frozen=True):
    """What somebody asks for who wants to be sent a channel's messages."""

    kind: Kind
    channel: str
    callback: str
    topic: str = ""
    """As the subscriber calls it; empty: like the channel."""
    secret: bytes | None = None
    algorithm: Algorithm = "sha256"
    key: bytes | None = None
    lease_seconds: str | float | None = None


class Webhooks:
    """Every method checks what the identity may do, and raises what speaks against it."""

    def __init__(
        self,
        bus: Bus,
        store: Store,
        clock: Clock,
        topics: Topics,
        maker: TopicMaker,
        limits: WebhookLimits,
    ) -> None:
        self.limits = limits
        self._bus = bus
        self._store = store
        self._clock = clock
        self._topics = topics
        self._maker = maker
        self._remembered: dict[tuple[str, str], tuple[float, WebTopic]] = {}

    # -- topics ---------------------------------------------------------------------------------

    async def register_topic(
        self, hub: Hub, identity: Identity, channel: str, with_key: bool
    ) -> str | None:
        """Make a topic; answers its key, if one was wanted. It is told only this once. Raises
        `TopicExists`, `NotPermitted`."""
        if not self._may_publish(hub, identity, channel):
            raise NotPermitted(f"no permission to register the topic {channel!r}")
        await self._maker.ensure(hub, channel)
        key = secrets.token_urlsafe(_KEY_BYTES) if with_key else None
        topic = WebTopic(hub.name, channel, _hash_of(key) if key else None, self._now())
        if not await self._store.add_web_topic(topic):
            raise TopicExists(
                f"the topic {channel!r} is registered already in hub {hub.name!r}; choose another"
            )
        return key

    async def find_topic(self, hub: Hub, channel: str) -> WebTopic:
        """Raises `TopicNotFound`."""
        topic = await self._look_up(hub.name, channel)
        if topic is None:
            raise TopicNotFound(
                f"there is no topic {channel!r} in hub {hub.name!r}; register it first"
            )
        return topic

    def forget_topic(self, hub: str, channel: str) -> None:
        """It was removed."""
        self._remembered.pop((hub, channel), None)

    async def _look_up(self, hub: str, channel: str) -> WebTopic | None:
        """Remembered for a moment: who publishes much should not wait for the disk each time."""
        now = self._clock.monotonic()
        known = self._remembered.get((hub, channel))
        if known is not None and known[0] > now:
            return known[1]
        topic = await self._store.read_web_topic(hub, check_name(channel, "channel"))
        if topic is not None:
            if len(self._remembered) >= _MOST_REMEMBERED:
                self._remembered.clear()
            self._remembered[hub, channel] = (now + _REMEMBER_SECONDS, topic)
        return topic

    async def check_publisher(
        self, hub: Hub, identity: Identity, channel: str, key: str | None = None
    ) -> None:
        """A topic with a key is for those who know it; without one the permissions of the channel
        hold, and in a hub with open topics everybody may. Raises `NotPermitted`."""
        topic = await self._look_up(hub.name, channel)
        if topic is not None and topic.key_hash is not None:
            if identity.level is not Level.CLIENT:
                return
            if key is None or not hmac.compare_digest(_hash_of(key), topic.key_hash):
                raise NotPermitted(
                    f"the topic {channel!r} has an owner; publish with the key that registering "
                    "it answered"
                )
        elif not self._may_publish(hub, identity, channel):
            raise NotPermitted(f"no permission to publish to {channel!r}")

    async def publish(
        self,
        hub: Hub,
        identity: Identity,
        channel: str,
        body: bytes,
        content_type: str,
        key: str | None = None,
        technology: Literal["light", "websub"] = "light",
    ) -> tuple[str, PublishOutcome]:
        """Store a message and answer its id and place once it is on disk. Raises `TopicNotFound`
        where a topic of Light-PubSubHubbub was not registered."""
        if technology == "light":
            await self.find_topic(hub, channel)
        await self.check_publisher(hub, identity, channel, key)
        item = PublishItem(channel, technology, body, content_type, store=True)
        trusted = msgspec.structs.replace(identity, level=Level.SERVICE)  # it was checked above
        return await self._topics.put(hub, trusted, item, technology)

    @staticmethod
    def _may_publish(hub: Hub, identity: Identity, channel: str) -> bool:
        rules = hub.rules_for(channel)
        return hub.configuration.settings.open_topics or may_publish(
            identity, channel, rules, hub.user_channels
        )

    # -- subscriptions --------------------------------------------------------------------------

    async def subscribe(
        self,
        hub: Hub,
        identity: Identity,
        request: WebhookRequest,
        start: Literal["new", "first"] | int = "new",
    ) -> Webhook:
        """From now on the channel's messages are sent there. Who subscribes again renews it, and
        keeps the place. Raises `TopicNotFound`, `NotPermitted`, `QuotaExceeded`, `BadRequest`."""
        webhook = await self._prepare(hub, identity, request)
        await self._store.save_webhook(webhook)
        await self._bus.topic(SubscribeTopic(key_of(webhook), None, start))
        return webhook

    async def _prepare(self, hub: Hub, identity: Identity, request: WebhookRequest) -> Webhook:
        """The webhook that was asked for, if it may be; its channel stores."""
        channel = check_name(request.channel, "channel")
        if not self._may_subscribe(hub, identity, channel):
            raise NotPermitted(f"no permission to subscribe to {channel!r}")
        check_secret(request.secret)
        check_key(request.key)
        self._check_address(hub, request.callback)
        if request.kind == "light":
            await self.find_topic(hub, channel)
        webhook = self._webhook(hub, identity, request)
        known = await self._store.read_webhook(hub.name, webhook.id)
        if known is None:
            await self._check_quota(hub)
        await self._maker.ensure(hub, channel)
        with contextlib.suppress(HubbubError):  # then what cannot be delivered is not kept
            await self._maker.ensure(hub, dead_letter_channel(channel, SubscriptionOptions()))
        if known is None:
            return webhook
        return msgspec.structs.replace(webhook, created_at=known.created_at)

    def _webhook(self, hub: Hub, identity: Identity, request: WebhookRequest) -> Webhook:
        now = self._now()
        expires_at = None
        if request.kind == "websub" or request.lease_seconds is not None:
            expires_at = now + 1000 * self.lease(request.lease_seconds)
        return Webhook(
            hub=hub.name,
            channel=request.channel,
            id=webhook_id(request.kind, hub.name, request.channel, request.callback),
            kind=request.kind,
            callback=request.callback,
            topic=request.topic or request.channel,
            secret=request.secret,
            algorithm=request.algorithm,
            key=request.key,
            created_at=now,
            expires_at=expires_at,
            owner=principal_of(identity),
        )

    def lease(self, asked: str | float | None) -> int:
        """The seconds that are granted. Raises `BadRequest`."""
        limits = self.limits
        return lease_seconds(asked, limits.default_lease_seconds, limits.max_lease_seconds)

    @staticmethod
    def _may_subscribe(hub: Hub, identity: Identity, channel: str) -> bool:
        rules = hub.rules_for(channel)
        return hub.configuration.settings.open_topics or may_subscribe(
            identity, channel, rules, hub.user_channels
        )

    @staticmethod
    def _check_address(hub: Hub, callback: str) -> None:
        """Raises `BadRequest`; `NotPermitted` where the callback is a private address as it stands
        there. Where a name leads is checked whenever it is connected to."""
        parts = check_callback(callback)
        address = literal_address(parts.host)
        if address is None or hub.configuration.settings.allow_private_callbacks:
            return
        if not address.public:
            raise NotPermitted(
                f"the callback {callback[:200]!r} is no public address; hub {hub.name!r} sends "
                "nothing to private ones"
            )

    async def _check_quota(self, hub: Hub) -> None:
        quota = hub.configuration.settings.quotas.webhooks or MAX_WEBHOOKS
        if await self._store.count_webhooks(hub.name) >= quota:
            raise QuotaExceeded(
                f"hub {hub.name!r} has {quota} webhooks, its quota; remove one that nobody needs"
            )

    async def unsubscribe(self, hub: Hub, identity: Identity, webhook: str) -> None:
        """Raises `NotSubscribed`, `NotPermitted`."""
        found = await self.find(hub, webhook)
        if not self._may_subscribe(hub, identity, found.channel):
            raise NotPermitted(f"no permission for the webhook {webhook!r}")
        await self.end(found)

    async def end(self, webhook: Webhook) -> None:
        """Its place goes first: a row without one is dropped at the next start."""
        letters = dead_letter_channel(webhook.channel, SubscriptionOptions())
        for key in (
            key_of(webhook),
            SubscriptionKey(webhook.hub, letters, WEBHOOK_OWNER, webhook.id),
        ):
            with contextlib.suppress(NotSubscribed, TopicNotFound):
                await self._bus.topic(UnsubscribeTopic(key))
        await self._store.delete_webhook(webhook.hub, webhook.id)

    async def find(self, hub: Hub, webhook: str) -> Webhook:
        """By its id. Raises `NotSubscribed`."""
        found = await self._store.read_webhook(hub.name, webhook)
        if found is None:
            raise NotSubscribed(f"hub {hub.name!r} has no webhook {webhook[:64]!r}")
        return found

    async def list(self, hub: Hub, after: str = "", limit: int = 100) -> list[Webhook]:
        """Of all kinds, in the order of their ids, those behind `after`."""
        return await self._store.read_webhooks(hub.name, after=(hub.name, after), limit=limit)

    async def describe(self, hub: Hub, webhook: str) -> WebhookStatus:
        """How it is doing. Raises `NotSubscribed`."""
        await self.find(hub, webhook)
        return WebhookStatus()

    def _now(self) -> int:
        return int(self._clock.now() * 1000)


def key_of(webhook: Webhook) -> SubscriptionKey:
    return SubscriptionKey(webhook.hub, webhook.channel, WEBHOOK_OWNER, webhook.id)


def _hash_of(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
