"""The command that tells the statistics of a channel."""

from __future__ import annotations

from typing import Any, Protocol

from hubbub.domain.commands.dates import write_date
from hubbub.domain.commands.jids import channel_id
from hubbub.engine.commands.asking import Asker
from hubbub.engine.commands.parameters import channel_in, required_object
from hubbub.engine.commands.records import ChannelRecords
from hubbub.ports.storage.commands import CommandStore
from hubbub.ports.storage.messages import MessageStore


class StatisticsStore(CommandStore, MessageStore, Protocol):
    """Subscriptions of users, and what channels hold."""


class StatisticsCommand:
    def __init__(self, store: StatisticsStore, records: ChannelRecords) -> None:
        self._store = store
        self._records = records

    async def statistics(self, asker: Asker, params: Any) -> Any:
        """What the store knows of the channel, for its participants; each figure is read from an
        index, however much the channel holds."""
        channel = channel_in(asker, required_object(params))
        binding = self._records.check(asker, channel)
        await asker.hub.consent(asker.identity, channel)
        hub = asker.hub.name
        head = await self._store.read_head(hub, channel)
        subscribed = await self._store.read_subscribed_users(hub, channel)
        told: dict[str, Any] = {
            "chid": channel_id(channel, hub),
            "published": 0 if head is None else head.head,
            "stored": 0,
            "storedBytes": 0,
            "participants": len(binding.participants),
            "subscribers": len(subscribed),
        }
        for stored in await self._store.read_channels_named(hub, [channel]):
            told |= {
                "stored": stored.head - stored.first + 1,
                "storedBytes": stored.stored_bytes,
                "oldest": write_date(stored.oldest_at),
                "newest": write_date(stored.last_at),
            }
        return told
