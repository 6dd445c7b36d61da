"""Retention at the owner of channels: deletes stored messages beyond the limits of their rules.

It works on the disk, so that channels that are not open are covered as well. The transaction that
deletes also checks that this node still owns the channel and that no durable subscription needs the
messages."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import msgspec

from hubbub.domain.documents.changes import ChangeOptions
from hubbub.domain.errors import HUB_AWAY, InvalidName, StaleOwner
from hubbub.domain.names import partition_of
from hubbub.domain.retention import StoredRange, first_to_keep, limited_first
from hubbub.domain.rules import Rules
from hubbub.engine.channels.owner import ChannelOwner
from hubbub.engine.directory import ConfigurationOf
from hubbub.engine.documents.judge import deletion
from hubbub.engine.documents.reader import outlived
from hubbub.engine.topics.cursors import cursor_of
from hubbub.ports.clock import Clock
from hubbub.ports.storage import Store
from hubbub.ports.storage.messages import StoredChannel

logger = logging.getLogger(__name__)

_PAGE = 500

Exported = Callable[[str, str], Awaitable[int]]
"""The serial up to which a channel's messages (by hub and name) are in the journal."""


class Retention:
    """One per owner; `run` is called periodically, never concurrently."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        owner: ChannelOwner,
        configuration_of: ConfigurationOf,
        exported: Exported | None = None,
    ) -> None:
        """`exported`: later messages are not in the journal yet and are kept; None: there is no
        journal."""
        self._store = store
        self._clock = clock
        self._owner = owner
        self._configuration_of = configuration_of
        self._exported = exported

    async def run(self) -> None:
        """Applies the rules to every channel that this node owns. Raises `StoreUnavailable`."""
        for hub in await self._store.read_stored_hubs():
            try:
                rules = self._configuration_of(hub).rules.values()
            except (*HUB_AWAY, InvalidName):
                continue  # it is being deleted
            if any(each.reclaims for each in rules):
                await self._run_hub(hub)
            if any(each.document_ttl_seconds for each in rules):
                await self._expire_documents(hub)

    async def _run_hub(self, hub: str) -> None:
        after = ""
        while True:
            page = await self._store.read_channels(hub, after, _PAGE)
            for stored in page:
                await self._run_channel(stored)
            if len(page) < _PAGE:
                return
            after = page[-1].name

    async def _expire_documents(self, hub: str) -> None:
        """Deletes documents that were not changed within the time to live in their rules."""
        now = int(self._clock.now() * 1000)
        after = ""
        while page := await self._store.read_documents(hub, after, _PAGE):
            for found in page:
                rules = self._configuration_of(hub).rules_for(found.channel)
                owned = partition_of(hub, found.channel) in self._owner.terms
                if owned and outlived(found.head.updated_at, rules, now):
                    options = ChangeOptions("delete", found.head.version, epoch=found.head.epoch)
                    self._owner.publish(deletion(hub, found.channel, now, options), None)
            after = page[-1].channel

    async def _run_channel(self, stored: StoredChannel) -> None:
        partition = partition_of(stored.hub, stored.name)
        term = self._owner.terms.get(partition)
        if term is None:
            return
        try:
            rules = self._configuration_of(stored.hub).rules_for(stored.name)
            if rules.reclaims:
                await self._reclaim(stored, rules, partition, term)
        except (*HUB_AWAY, StaleOwner) as error:
            logger.info("hub %s: channel %r keeps its messages: %s", stored.hub, stored.name, error)

    async def _reclaim(
        self, stored: StoredChannel, rules: Rules, partition: int, term: int
    ) -> None:
        """Deletes in steps, if the size limit demands very much. Messages that arrive meanwhile are
        left to the next run."""
        while stored.first <= stored.head:
            serial = await self._first_to_keep(stored, rules)
            if serial <= stored.first:
                return
            deleted = await self._store.delete_before(
                stored.hub,
                stored.name,
                serial,
                partition,
                term,
                spare_unread=not rules.drop_unread,
            )
            self._owner.reclaimed(stored.hub, stored.name, deleted)
            if not deleted.messages:
                return
            stored = msgspec.structs.replace(
                stored,
                first=deleted.first,
                stored_bytes=stored.stored_bytes - deleted.stored_bytes,
            )

    async def _first_to_keep(self, stored: StoredChannel, rules: Rules) -> int:
        """Queries the store only for limits that can matter."""
        hub, name = stored.hub, stored.name
        by_age = by_bytes = 0
        since = int(self._clock.now() * 1000) - rules.max_age_seconds * 1000
        if rules.max_age_seconds and stored.oldest_at < since:
            by_age = await self._store.first_at(hub, name, since)
        if rules.max_stored_bytes and stored.stored_bytes > rules.max_stored_bytes:
            by_bytes = await self._store.first_within(hub, name, rules.max_stored_bytes)
        holdings = StoredRange(stored.first, stored.head, by_age, by_bytes)
        if not rules.reclaim_acknowledged and limited_first(rules, holdings) <= stored.first:
            return stored.first
        floor = exported = None
        if rules.reclaim_acknowledged or not rules.drop_unread:
            floor = await self._floor(stored)
        if self._exported is not None and rules.journal != "off":
            exported = await self._exported(hub, name)
        return first_to_keep(
            rules,
            StoredRange(stored.first, stored.head, by_age, by_bytes, floor, exported),
        )

    async def _floor(self, stored: StoredChannel) -> int | None:
        """The serial up to which all durable subscriptions are done, on disk; None: there are
        none."""
        cursors = await self._store.read_cursors(stored.hub, stored.name)
        return min((cursor_of(each, stored.epoch).floor for each in cursors), default=None)
