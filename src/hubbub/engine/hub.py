"""A hub on this node: its settings, its sessions, and the channels that they follow."""

from __future__ import annotations

import secrets
from itertools import count
from typing import TYPE_CHECKING

from hubbub.domain.errors import HubNotFound
from hubbub.domain.limits import TokenBucket
from hubbub.domain.names import check_name
from hubbub.domain.rules import HubConfiguration, Rules
from hubbub.engine.counters import HubCounters
from hubbub.engine.delivery.fanout import DeliveryQueue
from hubbub.ports.connection import Pausable

if TYPE_CHECKING:
    from hubbub.engine.delivery.feed import Feed
    from hubbub.engine.sessions.session import Session

_REMEMBERED_RULES = 4096


class Hub:
    """The state of a tenant in memory. It goes when nobody has used it for a while."""

    __slots__ = (
        "_rules",
        "configuration",
        "counters",
        "deliveries",
        "delivery_queue",
        "feeds",
        "idle_since",
        "limited",
        "message_numbers",
        "message_prefix",
        "messages",
        "missing",
        "name",
        "sessions",
        "topic_keys",
        "user_channels",
    )

    def __init__(
        self,
        configuration: HubConfiguration,
        counters: HubCounters,
        now: float,
        missing: HubNotFound | None = None,
    ) -> None:
        """`missing`: there is no such hub, which is told only to who has a token for it."""
        self.name = configuration.hub
        self.missing = missing
        # Ids of messages: they count within the hub, and tell nothing about other hubs.
        self.message_prefix = secrets.token_hex(6)
        self.message_numbers = count(1)
        self.counters = counters
        self.delivery_queue = DeliveryQueue(counters)
        self.sessions: dict[str, Session] = {}
        self.feeds: dict[str, Feed] = {}
        self.idle_since = now
        self.configure(configuration, now)

    def configure(self, configuration: HubConfiguration, now: float) -> None:
        quotas = configuration.settings.quotas
        self.configuration = configuration
        self.user_channels = configuration.settings.user_channel
        self.topic_keys = configuration.topic_keys
        self.limited = bool(quotas.messages_per_second or quotas.deliveries_per_second)
        self.messages = TokenBucket(quotas.messages_per_second, quotas.messages_per_second, now)
        self.deliveries = TokenBucket(
            quotas.deliveries_per_second, quotas.deliveries_per_second, now
        )
        self._rules: dict[str, Rules] = {}

    def rules_for(self, channel: str) -> Rules:
        """The rules of a channel. Raises `InvalidName`."""
        rules = self._rules.get(channel)
        if rules is None:
            rules = self.configuration.rules_for(check_name(channel, "channel"))
            if len(self._rules) >= _REMEMBERED_RULES:
                self._rules.clear()
            self._rules[channel] = rules
        return rules

    def hold_back(self, channel: str, publisher: Pausable) -> None:
        """Let a publisher wait if the channel's subscribers are far behind."""
        feed = self.feeds.get(channel)
        if feed is not None:
            feed.hold_back(publisher)
