"""Retention at the owner of channels: has stored messages go when their time has come.

It looks at what is on disk, so channels that nobody has open are held to their limits as well. The
store checks again, in the transaction that deletes, that this node still owns the channel and that
no durable subscription needs what goes.
"""

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
from hubbub.engine.topics.cursors import cursor_of
from hubbub.ports.clock import Clock
from hubbub.ports.storage import Store
from hubbub.ports.storage.messages import StoredChannel

logger = logging.getLogger(__name__)

_PAGE = 500

Exported = Callable[[str, str], Awaitable[int]]
"""The serial up to which a channel's messages (by hub and name) are in the journal."""


class Retention:
    """One for each owner; `run` is called from time to time, never twice at the same time."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        owner: ChannelOwner,
        configuration_of: ConfigurationOf,
        exported: Exported | None = None,
    ) -> None:
        """`exported`: what is not in the journal yet stays; None: nobody keeps one."""
        self._store = store
        self._clock = clock
        self._owner = owner
        self._configuration_of = configuration_of
        self._exported = exported

    async def run(self) -> None:
        """Hold every channel that this node owns to its rules. Raises `StoreUnavailable`."""
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
        """Delete documents that nobody has changed for as long as their rules say."""
        now = int(self._clock.now() * 1000)
        after = ""
        while page := await self._store.read_documents(hub, after, _PAGE):
            for found in page:
                ttl = self._configuration_of(hub).rules_for(found.channel).document_ttl_seconds
                owned = partition_of(hub, found.channel) in self._owner.terms
                if owned and ttl and found.head.updated_at < now - ttl * 1000:
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
            logger.info("channel %r keeps its messages: %s", stored.name, error.message)

    async def _reclaim(
        self, stored: StoredChannel, rules: Rules, partition: int, term: int
    ) -> None:
        """Step by step, where the limit of size asks for very much. What comes in meanwhile is for
        the next time."""
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
        """Asks the store only for what can make a difference."""
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
        """Up to where everyone is done, on disk; None: nobody has a durable subscription."""
        cursors = await self._store.read_cursors(stored.hub, stored.name)
        return min((cursor_of(each, stored.epoch).floor for each in cursors), default=None)
