"""Topics: put, get, acknowledge; the one door for all gateways that offer exactly-once."""

from __future__ import annotations

from hubbub.domain.permissions import Identity
from hubbub.domain.requests import PublishItem
from hubbub.domain.topics import (
    Article,
    ProducerState,
    SubscriptionInfo,
    SubscriptionOptions,
)
from hubbub.engine.hub import Hub
from hubbub.ports.bus import PublishOutcome


class Topics:
    """Every method checks what the identity may do, and raises what speaks against it."""

    async def put(
        self, hub: Hub, identity: Identity, item: PublishItem
    ) -> tuple[str, PublishOutcome]:
        """Store a message and answer its id and place once it is on disk. `item.producer` makes it
        idempotent. The outcome's `duplicate` says that it was there already; its serial is 0 if it
        has been reclaimed since. Raises `SequenceGap`, `SequenceReused`, `ProducerFenced`."""
        raise NotImplementedError

    async def open_producer(
        self, hub: Hub, identity: Identity, topic: str, producer: str
    ) -> ProducerState:
        """Take a producer id over: puts under an older fence are refused from now on."""
        raise NotImplementedError

    async def subscribe(
        self,
        hub: Hub,
        identity: Identity,
        topic: str,
        name: str,
        options: SubscriptionOptions | None = None,
        start: str | int = "new",
    ) -> SubscriptionInfo:
        raise NotImplementedError

    async def unsubscribe(self, hub: Hub, identity: Identity, topic: str, name: str) -> None:
        """Raises `NotSubscribed`."""
        raise NotImplementedError

    async def info(self, hub: Hub, identity: Identity, topic: str, name: str) -> SubscriptionInfo:
        """Raises `NotSubscribed`, `TopicNotFound`."""
        raise NotImplementedError

    async def list_own(self, hub: Hub, identity: Identity) -> list[SubscriptionInfo]:
        """The caller's own durable subscriptions in this hub."""
        raise NotImplementedError

    async def get(
        self,
        hub: Hub,
        identity: Identity,
        topic: str,
        name: str,
        limit: int = 1,
        wait_seconds: float = 0.0,
        consumer: str = "",
        ack_up_to: int | None = None,
    ) -> list[Article]:
        """Empty: there is nothing for the caller (yet). Raises `NotSubscribed`,
        `TopicNotFound`."""
        raise NotImplementedError

    async def get_each(self, hub: Hub, identity: Identity, name: str) -> dict[str, list[Article]]:
        """One message, or none, for each topic with a subscription of this name."""
        raise NotImplementedError

    async def acknowledge(
        self,
        hub: Hub,
        identity: Identity,
        topic: str,
        name: str,
        serials: tuple[int, ...] = (),
        up_to: int | None = None,
        consumer: str = "",
        give_back: bool = False,
    ) -> int:
        """Answers the floor: everything up to it is done. It is on disk then."""
        raise NotImplementedError
