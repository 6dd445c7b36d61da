"""Turns a channel into a topic at the first put or durable subscription, if its hub allows that."""

from __future__ import annotations

import asyncio

from hubbub.domain.errors import Conflict, QuotaExceeded, TopicNotFound
from hubbub.domain.names import ChannelKind, kind_of, namespace_of
from hubbub.domain.rules import ChannelSettings, HubConfiguration
from hubbub.engine.directory import Directory
from hubbub.engine.hub import Hub

MAX_TOPICS = 10_000
"""Maximum number of channels with their own settings per hub; beyond it, no topic is created on
use."""


class TopicMaker:
    """Assigns the hub's `topic_rules` to channels that do not store messages."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._locks: dict[str, asyncio.Lock] = {}

    async def ensure(self, hub: Hub, channel: str) -> None:
        """Makes sure that the channel stores messages. Raises `TopicNotFound` if it may not become
        a topic."""
        if hub.rules_for(channel).store:
            return
        lock = self._locks.setdefault(hub.name, asyncio.Lock())
        try:
            async with lock:
                if not hub.rules_for(channel).store:
                    await self._make(hub, channel)
        finally:
            if not lock.locked():
                self._locks.pop(hub.name, None)

    async def _make(self, hub: Hub, channel: str) -> None:
        configuration = hub.configuration
        rules = configuration.settings.topic_rules
        if rules is None or not _is_unruled(configuration, channel):
            raise TopicNotFound(
                f"channel {channel!r} does not store messages; switch 'store' on in its rules, or "
                "name topicRules in the hub's settings"
            )
        if not configuration.rules[rules].store:
            raise Conflict(
                f"the topicRules {rules!r} of hub {hub.name!r} do not store; switch 'store' on"
            )
        if len(configuration.channels) >= MAX_TOPICS:
            raise QuotaExceeded(
                f"hub {hub.name!r} has {MAX_TOPICS} channels with settings of their own; "
                f"{channel!r} was not made a topic"
            )
        await self._directory.settle(hub.name)
        known = configuration.channels.get(channel)
        settings = ChannelSettings(rules, known.metadata if known is not None else {})
        await self._directory.put(hub.name, "channel", channel, settings)


def _is_unruled(configuration: HubConfiguration, channel: str) -> bool:
    """Whether neither the channel nor its namespace has rules of its own."""
    own = configuration.channels.get(channel)
    namespace = namespace_of(channel)
    return (
        kind_of(channel) is ChannelKind.DEFAULT
        and (own is None or own.rules is None)
        and (namespace is None or namespace not in configuration.namespaces)
        and configuration.settings.topic_rules in configuration.rules
    )
