"""Publishing: may this caller say this here and now? Then off to the channel's owner."""

from __future__ import annotations

import secrets
from itertools import count
from time import perf_counter

from hubbub.domain.errors import (
    NotPermitted,
    QuotaExceeded,
    TooLarge,
    WrongChannelKind,
)
from hubbub.domain.messages import Message
from hubbub.domain.names import ChannelKind, kind_of
from hubbub.domain.permissions import Identity, may_publish
from hubbub.domain.requests import PublishItem
from hubbub.engine.hub import Hub
from hubbub.engine.limits import EngineLimits
from hubbub.ports.bus import Bus, PublishReply
from hubbub.ports.clock import Clock


class Publisher:
    """The one door for messages, whichever way they came in."""

    def __init__(self, bus: Bus, clock: Clock, limits: EngineLimits) -> None:
        self._bus = bus
        self._clock = clock
        self._limits = limits
        self._prefix = secrets.token_hex(5)
        self._numbers = count(1)

    def publish(
        self, hub: Hub, identity: Identity, item: PublishItem, reply: PublishReply | None
    ) -> str:
        """Check and hand on; answers the message's id. Raises what speaks against it, in which
        case `reply` is not called."""
        started = perf_counter()
        self._check(hub, identity, item)
        counters = hub.counters
        counters.messages_in += 1
        counters.bytes_in += len(item.payload)
        message = Message(
            id=f"{self._prefix}{next(self._numbers):x}",
            hub=hub.name,
            channel=item.channel,
            event=item.event,
            payload=item.payload,
            content_type=item.content_type,
            published_at=int(self._clock.now() * 1000),
            publisher=identity.user_id,
            store=item.store,
            retain=item.retain,
            push=item.push,
            transient=item.transient,
        )
        self._bus.publish(message, reply)
        counters.publish_took(perf_counter() - started)
        return message.id

    def _check(self, hub: Hub, identity: Identity, item: PublishItem) -> None:
        channel = item.channel
        rules = hub.rules_for(channel)
        if not may_publish(identity, channel, rules, hub.user_channels):
            raise NotPermitted(f"no permission to publish to {channel!r}")
        if kind_of(channel) is ChannelKind.NOTIFICATION:
            raise WrongChannelKind(
                f"{channel!r} is a notification channel; it takes no published messages"
            )
        if len(item.payload) > self._limits.message_bytes:
            raise TooLarge(
                f"the payload for {channel!r} has {len(item.payload)} bytes; "
                f"at most {self._limits.message_bytes} are allowed"
            )
        if hub.limited:
            self._check_quotas(hub, channel)

    def _check_quotas(self, hub: Hub, channel: str) -> None:
        now = self._clock.monotonic()
        if not hub.messages.take(1, now):
            raise QuotaExceeded(
                f"hub {hub.name!r} publishes more than its quota of messages per second; "
                "slow down and try again"
            )
        feed = hub.feeds.get(channel)
        if feed is not None and not hub.deliveries.take(feed.subscribers, now):
            raise QuotaExceeded(
                f"hub {hub.name!r} delivers more than its quota of deliveries per second; "
                "slow down and try again"
            )
