"""Topics of Light-PubSubHubbub and WebSub: who may register and publish, and what is fetched."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Literal

import msgspec

from hubbub.domain.callbacks import check_callback
from hubbub.domain.errors import NotPermitted, TopicExists, TopicNotFound
from hubbub.domain.names import check_name
from hubbub.domain.payloads import untouched_payload
from hubbub.domain.permissions import Identity, Level, may_publish
from hubbub.domain.requests import PublishItem
from hubbub.domain.webhooks import WebTopic
from hubbub.engine.hub import Hub
from hubbub.engine.topics.creation import TopicMaker
from hubbub.engine.topics.service import Topics
from hubbub.engine.webhooks.fetching import Fetched, Fetcher
from hubbub.engine.webhooks.limits import WebhookLimits
from hubbub.ports.bus import Bus, PublishOutcome
from hubbub.ports.clock import Clock
from hubbub.ports.outgoing import HttpSender
from hubbub.ports.store import Store

_KEY_BYTES = 24
_TRUSTED = Identity(level=Level.SERVICE)
_REMEMBER_SECONDS = 5.0
_MOST_REMEMBERED = 10_000


class WebTopics:
    """The part of `Webhooks` that is about topics."""

    def __init__(
        self,
        bus: Bus,
        store: Store,
        clock: Clock,
        topics: Topics,
        maker: TopicMaker,
        limits: WebhookLimits,
        sender: HttpSender | None = None,
    ) -> None:
        """`sender`: for what does not wait for its turn, such as fetching; None: there is none."""
        self.limits = limits
        self._sender = sender
        self._fetcher = Fetcher(store, clock, sender, limits)
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

    async def fetch_topic(self, hub: Hub, url: str, channel: str) -> Fetched:
        """A publisher says that there is something new at the URL: fetch it, and publish it if it
        is. Raises `BadRequest` for what is no URL."""
        check_callback(url)

        async def publish(body: bytes, content_type: str) -> object:
            payload, kept = untouched_payload(body, content_type)
            item = PublishItem(channel, "websub", payload, kept, store=True)
            return await self._topics.put(hub, _TRUSTED, item, "websub")

        reach = hub.configuration.settings.callback_addresses
        return await self._fetcher.fetch(hub.name, channel, url, reach, publish)

    def _now(self) -> int:
        return int(self._clock.now() * 1000)


def _hash_of(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
