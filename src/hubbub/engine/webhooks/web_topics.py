"""Topics of Light-PubSubHubbub and WebSub: registering, publishing and fetching."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from hubbub.domain.callbacks import check_callback
from hubbub.domain.envelope import check_envelope
from hubbub.domain.errors import NotPermitted, QuotaExceeded, TopicExists, TopicNotFound
from hubbub.domain.messages import Attributes
from hubbub.domain.names import (
    USER_NAMESPACE,
    ChannelKind,
    check_name,
    kind_of,
    namespace_of,
    without_dead_letters,
)
from hubbub.domain.payloads import untouched_payload, with_media_type
from hubbub.domain.permissions import Identity, Level, may_publish
from hubbub.domain.requests import PublishItem
from hubbub.domain.rules import Rules
from hubbub.domain.topics import TopicPinged
from hubbub.domain.webhooks import WebTopic, hash_topic_key, is_foreign
from hubbub.engine.directory import Directory
from hubbub.engine.hub import Hub
from hubbub.engine.outward.gate import OutgoingGate
from hubbub.engine.outward.limits import WebhookLimits
from hubbub.engine.publishing import check_publisher
from hubbub.engine.topic_creation import MAX_TOPICS, TopicMaker
from hubbub.engine.topics.service import Topics
from hubbub.ports import randomness
from hubbub.ports.bus import Attach, Bus, Detach, PublishOutcome
from hubbub.ports.clock import Clock
from hubbub.ports.storage import Store

_KEY_BYTES = 24
Decide = Callable[[Identity, str, Rules, bool], bool]
_TRUSTED = Identity(level=Level.SERVICE)
_REMEMBER_SECONDS = 5.0
_MOST_REMEMBERED = 10_000


class WebTopics:
    """The part of `Webhooks` that handles topics."""

    def __init__(
        self,
        bus: Bus,
        store: Store,
        clock: Clock,
        topics: Topics,
        maker: TopicMaker,
        directory: Directory,
        limits: WebhookLimits,
        outgoing: OutgoingGate,
    ) -> None:
        self.limits = limits
        self._outgoing = outgoing
        self._bus = bus
        self._store = store
        self._clock = clock
        self._topics = topics
        self._maker = maker
        self._directory = directory
        self._remembered: dict[tuple[str, str], tuple[float, WebTopic]] = {}

    # -- topics ---------------------------------------------------------------------------------

    async def register_topic(
        self, hub: Hub, identity: Identity, channel: str, with_key: bool
    ) -> str | None:
        """Creates a topic and returns its key, if one was requested; the key is not shown again.
        Raises `TopicExists`, `NotPermitted`, `QuotaExceeded`."""
        known = await self._store.read_web_topic(hub.name, check_name(channel, "topic"))
        opens = known is None and await self._may_be_opened(hub, channel)
        if known is None and not opens and not may(may_publish, hub, identity, channel):
            raise NotPermitted(f"no permission to register the topic {channel!r}")
        if known is None and with_key and len(hub.topic_keys) >= MAX_TOPICS:
            raise QuotaExceeded(
                f"hub {hub.name!r} has {MAX_TOPICS} topics with a key, the most; register "
                f"{channel!r} without one, or delete topics that nobody uses"
            )
        key = randomness.token_urlsafe(_KEY_BYTES) if with_key else None
        topic = WebTopic(
            hub.name, channel, hash_topic_key(key) if key else None, self._now(), open=opens
        )
        if known is None:
            await self._maker.ensure(hub, channel)
        if known is not None or not await self._store.add_web_topic(topic):
            raise TopicExists(
                f"the topic {channel!r} is registered already in hub {hub.name!r}; choose another"
            )
        if key is not None:
            await self._directory.settle(hub.name)
            await self._directory.changed(hub.name)  # the key holds at every door of every node
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
        """Drop a removed topic from the cache."""
        self._remembered.pop((hub, channel), None)

    async def _look_up(self, hub: str, channel: str) -> WebTopic | None:
        """Caches topics briefly, so that frequent publishers do not wait for the disk each time."""
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
        """Raises `NotPermitted`. Besides publishers with the usual permission, anybody may publish
        to an open topic without a key. Nobody publishes to an external topic: its content is
        fetched."""
        if without_dead_letters(channel) not in hub.topic_keys:
            if not is_foreign(channel) and await self._is_open(hub, channel):
                return
            if not _is_let_in(hub, identity):
                raise NotPermitted(f"no permission to publish to {channel!r}")
        check_publisher(hub, identity, channel, key)

    async def _is_open(self, hub: Hub, channel: str) -> bool:
        """Whether the topic was created through `open_topics` and no administrator changed it
        since."""
        configuration = hub.configuration
        if not configuration.settings.open_topics or configuration.is_decided(channel):
            return False
        topic = await self._look_up(hub.name, channel)
        return topic is not None and topic.open

    async def _may_be_opened(self, hub: Hub, channel: str) -> bool:
        """Whether the channel may become an open topic: it is unused, and no administrator
        configured it."""
        configuration = hub.configuration
        if (
            not configuration.settings.open_topics
            or configuration.is_decided(channel)
            or channel in configuration.channels
            or kind_of(channel) is not ChannelKind.DEFAULT
            or without_dead_letters(channel) != channel
            or (hub.user_channels and namespace_of(channel) == USER_NAMESPACE)
            or channel in hub.feeds
        ):
            return False
        state = await self._bus.ask(Attach(hub.name, channel))
        if channel not in hub.feeds:
            self._bus.tell(Detach(hub.name, channel))
        return not state.head and state.retained is None

    async def open_foreign(self, hub: Hub, channel: str) -> None:
        """Creates an external topic at the first subscription, if the hub allows open topics."""
        if (
            hub.configuration.settings.open_topics
            and is_foreign(channel)
            and await self._look_up(hub.name, channel) is None
            and await self._may_be_opened(hub, channel)
        ):
            await self._store.add_web_topic(
                WebTopic(hub.name, channel, created_at=self._now(), open=True)
            )

    async def publish(
        self,
        hub: Hub,
        identity: Identity,
        channel: str,
        body: bytes,
        content_type: str,
        key: str | None = None,
        technology: Literal["light", "websub"] = "light",
        attributes: Attributes | None = None,
    ) -> tuple[str, PublishOutcome]:
        """Stores a message; returns its id and serial once it is on disk. Raises `TopicNotFound` if
        a topic of Light-PubSubHubbub was not registered."""
        if technology == "light":
            await self.find_topic(hub, channel)
        await self.check_publisher(hub, identity, channel, key)
        item = PublishItem(
            channel, technology, body, content_type, store=True, attributes=attributes
        )
        check_envelope(item, identity)
        trusted = msgspec.structs.replace(identity, level=Level.SERVICE)  # it was checked above
        return await self._topics.put(hub, trusted, item, technology)

    async def ping(self, hub: Hub, url: str, channel: str) -> bool:
        """A publisher announces new content at the URL: the content is fetched, also after a
        restart, and published if it changed. Returns False if nobody is subscribed. Raises
        `BadRequest` for an invalid URL."""
        check_callback(url)
        await self.open_foreign(hub, channel)
        if not await self._store.read_webhooks(hub.name, channel, limit=1):
            return False
        await self._store.note_ping(hub.name, channel, url, self._now())
        await self._bus.ask(TopicPinged(hub.name, channel))
        return True

    async def publish_fetched(self, hub: Hub, channel: str, body: bytes, content_type: str) -> None:
        """Publishes the fetched content of an external topic, up to `fetchMaxBytes`. Raises the
        errors of the put."""
        payload, kept = untouched_payload(body, content_type)
        item = PublishItem(
            channel, "websub", payload, kept, store=True,
            attributes=with_media_type(None, kept, content_type),
            most_bytes=self.limits.fetch_bytes,
        )  # fmt: skip
        _, outcome = await self._topics.put(hub, _TRUSTED, item, "websub")
        if outcome.error is not None:
            raise outcome.error

    def _now(self) -> int:
        return int(self._clock.now() * 1000)


def _is_let_in(hub: Hub, identity: Identity) -> bool:
    """Whether the caller passes the hub's authentication rules, which `open_topics` does not
    relax."""
    return identity.authenticated or hub.configuration.settings.allow_anonymous


def may(decide: Decide, hub: Hub, identity: Identity, channel: str) -> bool:
    return _is_let_in(hub, identity) and decide(
        identity, channel, hub.rules_for(channel), hub.user_channels
    )
