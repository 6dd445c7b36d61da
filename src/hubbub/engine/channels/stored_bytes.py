"""What the hubs have stored, as far as a quota wants it known."""

from __future__ import annotations

from hubbub.domain.errors import QuotaExceeded
from hubbub.engine.channels.channel import Channel
from hubbub.engine.directory import ConfigurationOf
from hubbub.ports.storage.messages import MessageStore


class StoredBytes:
    """Bytes are counted when they set out, and given back if they do not arrive: a quota must not
    be passed by many messages at once."""

    def __init__(self, store: MessageStore, configuration_of: ConfigurationOf) -> None:
        self._store = store
        self._configuration_of = configuration_of
        self._counts: dict[str, int] = {}
        """By hub; those that have no quota are not counted."""
        self._changes: dict[str, int] = {}
        """Of hubs that are being counted again, since that began."""

    def must_count(self, channel: Channel) -> bool:
        """Whether there is a quota and nobody knows yet how much of it is used."""
        held = channel.notifications is not None or channel.document is not None
        stores = channel.rules.store or held
        known = channel.hub in self._counts
        return stores and not known and bool(self._quota(channel.hub))

    async def count(self, hub: str) -> None:
        stored = await self._store.stored_bytes(hub)
        self._counts.setdefault(hub, stored)

    async def count_again(self) -> None:
        """Other nodes store messages of the same hubs. Raises `StoreUnavailable`."""
        for hub in list(self._counts):
            self._changes[hub] = 0
            try:
                stored = await self._store.stored_bytes(hub)
            finally:
                change = self._changes.pop(hub, 0)
            if hub in self._counts:
                self._counts[hub] = max(0, stored + change)

    def check(self, channel: Channel, size: int) -> None:
        """Raises `QuotaExceeded` where so many bytes are too many."""
        quota = self._quota(channel.hub)
        if quota and self._counts.get(channel.hub, 0) + size > quota:
            raise QuotaExceeded(
                f"hub {channel.hub!r} has used up its quota of {quota} stored bytes; "
                "shorten its retention or raise the quota"
            )

    def add(self, hub: str, size: int) -> None:
        """Less than nothing where bytes were deleted, or did not arrive."""
        if hub in self._counts:
            self._counts[hub] = max(0, self._counts[hub] + size)
            if hub in self._changes:
                self._changes[hub] += size

    def forget(self, hub: str) -> None:
        self._counts.pop(hub, None)

    def _quota(self, hub: str) -> int:
        return self._configuration_of(hub).settings.quotas.stored_bytes
