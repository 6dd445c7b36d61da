"""Bytes that hubs store, for hubs with a storage quota."""

from __future__ import annotations

import logging

from hubbub.domain.errors import HubbubError, over_quota
from hubbub.domain.messages import Message
from hubbub.engine.channels.channel import Channel
from hubbub.engine.directory import ConfigurationOf
from hubbub.ports.storage.messages import MessageStore

logger = logging.getLogger(__name__)

ENVELOPE_BYTES = 250
"""Approximate size of a message besides its payload. The store's exact figure is read every
second."""


def size_of(message: Message) -> int:
    """The bytes that the stored message counts."""
    return len(message.payload) + ENVELOPE_BYTES


class StoredBytes:
    """Bytes count from the start of a write, and are returned if it fails, so that concurrent
    messages cannot exceed a quota. Other growth is bounded by the store itself
    (`Store.bound_by`)."""

    def __init__(self, store: MessageStore, configuration_of: ConfigurationOf) -> None:
        self._store = store
        self._configuration_of = configuration_of
        self._counts: dict[str, int] = {}
        """By hub; hubs without a quota are not counted."""
        self._changes: dict[str, int] = {}
        """Changes since the start of a recount, for hubs being recounted."""
        self._over: set[str] = set()
        """Hubs that exceed their quota and whose operator was told."""

    def must_count(self, channel: Channel) -> bool:
        """Whether there is a quota, and its use is not known yet."""
        stores = channel.rules.store or channel.rules.retain or channel.kept
        known = channel.hub in self._counts
        return stores and not known and bool(self.quota_of(channel.hub))

    async def count(self, hub: str) -> None:
        used = await self._store.used_bytes(hub)
        self._counts.setdefault(hub, used)
        self._tell(hub, used)

    async def count_again(self) -> None:
        """Reads the exact figures: other nodes store messages of the same hubs, and the store holds
        more than messages. Raises `StoreUnavailable`."""
        for hub in list(self._counts):
            self._changes[hub] = 0
            try:
                used = await self._store.used_bytes(hub)
            finally:
                change = self._changes.pop(hub, 0)
            if hub in self._counts:
                self._counts[hub] = max(0, used + change)
                self._tell(hub, used)

    def _tell(self, hub: str, used: int) -> None:
        quota = self.quota_of(hub)
        if not quota or used <= quota:
            self._over.discard(hub)
        elif hub not in self._over:
            self._over.add(hub)
            logger.warning(
                "hub %r takes %d bytes, more than its quota of %d stored bytes: what it has stays,"
                " and nothing is added until it takes less",
                hub,
                used,
                quota,
            )

    @property
    def over_quota(self) -> frozenset[str]:
        """Counted hubs that store more than their quota."""
        return frozenset(self._over)

    def check(self, channel: Channel, size: int) -> None:
        """Raises `QuotaExceeded` if this many bytes exceed the quota."""
        quota = self.quota_of(channel.hub)
        if quota and self._counts.get(channel.hub, 0) + size > quota:
            raise over_quota(channel.hub, quota)

    def check_retained(self, channel: Channel, message: Message) -> None:
        """Like `check`, for a message that replaces the retained one."""
        if not message.payload:
            return
        held = channel.retained
        before = 0 if held is None else size_of(held)
        added = size_of(message) - before
        if added > 0:
            self.check(channel, added)
        self.add(channel.hub, added)

    def add(self, hub: str, size: int) -> None:
        """Adds bytes; a negative number after a deletion or a failed write."""
        if hub in self._counts:
            self._counts[hub] = max(0, self._counts[hub] + size)
            if hub in self._changes:
                self._changes[hub] += size

    def forget(self, hub: str) -> None:
        self._counts.pop(hub, None)
        self._over.discard(hub)

    def quota_of(self, hub: str) -> int:
        """0 means no limit; also returned for a suspended hub."""
        try:
            return self._configuration_of(hub).settings.quotas.stored_bytes
        except HubbubError:
            return 0
