"""The full-text index at the owner of channels.

A message is indexed with its append. This room completes the index of channels that stored messages
before their rules switched search on (or whose hub was restored), and deletes the index where the
rules switch it off."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection

from hubbub.domain.errors import HUB_AWAY, HubbubError, InvalidName, StaleOwner
from hubbub.domain.names import partition_of
from hubbub.domain.rules import HubConfiguration
from hubbub.domain.search import CompleteIndex, is_searched
from hubbub.engine.channels.rooms import OwnerRoom
from hubbub.engine.channels.terms import Terms
from hubbub.engine.directory import ConfigurationOf
from hubbub.fair_slots import FairSlots
from hubbub.ports.storage import Store
from hubbub.tasks import TaskSet, awaited

logger = logging.getLogger(__name__)

_PAGE = 500
_AT_ONCE = 4
"""Channels that are indexed at once, in fair shares of the hubs."""
_WAIT_SECONDS = 1.0


class SearchIndexing(OwnerRoom):
    """Each channel is indexed by one task at a time. A failure is logged; the next sweep tries
    again."""

    def __init__(self, store: Store, terms: Terms, configuration_of: ConfigurationOf) -> None:
        self._store = store
        self._terms = terms
        self._configuration_of = configuration_of
        self._slots = FairSlots(_AT_ONCE)
        self._tasks = TaskSet(awaited)
        self._building: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._sweeping: dict[str, asyncio.Task[None]] = {}
        """By hub whose settings changed."""
        self._again: set[str] = set()
        """Hubs whose settings changed during a sweep."""
        self._looked: set[str] = set()
        """Hubs that were looked at since this node began to own partitions."""
        self._suspended: set[str] = set()
        self.owner_requests = {CompleteIndex: self._complete}

    # -- requests -------------------------------------------------------------------------------

    async def _complete(self, request: CompleteIndex) -> bool:
        """Raises `StaleOwner`, `QuotaExceeded` and `StoreUnavailable`."""
        task = self._build(request.hub, request.channel)
        done, _ = await asyncio.wait({task}, timeout=_WAIT_SECONDS)
        if not done:
            return False
        if task.cancelled():
            return False
        task.result()
        return True

    def _build(self, hub: str, channel: str) -> asyncio.Task[None]:
        place = hub, channel
        task = self._building.get(place)
        if task is None:
            task = self._building[place] = self._tasks.start(self._index(hub, channel))
            task.add_done_callback(lambda _: self._building.pop(place, None))
        return task

    async def _index(self, hub: str, channel: str) -> None:
        await self._slots.take(hub)
        try:
            partition = partition_of(hub, channel)
            term = self._terms.get(partition)
            if term is None or hub in self._suspended:
                raise StaleOwner(f"another node owns partition {partition} by now")
            if is_searched(channel, self._configuration_of(hub).rules_for(channel)):
                await self._store.index_texts(hub, channel, partition, term)
            else:
                await self._store.drop_texts(hub, channel, partition, term)
        finally:
            self._slots.give_back(hub)

    # -- sweeps ---------------------------------------------------------------------------------

    def owned(self, partitions: Collection[int]) -> None:
        self._looked.clear()

    async def expire(self) -> None:
        """An index that the rules do not want any more is looked for once: afterwards a change of
        the settings would tell."""
        for hub in await self._store.read_stored_hubs():
            if hub not in self._looked or self._searching(hub):
                self._looked.add(hub)
                self.hub_changed(hub)

    def _searching(self, hub: str) -> bool:
        try:
            rules = self._configuration_of(hub).rules
        except (*HUB_AWAY, InvalidName):
            return False  # it is being deleted
        return any(each.search for each in rules.values())

    def hub_changed(self, hub: str) -> None:
        if hub in self._sweeping:
            self._again.add(hub)
            return
        task = self._sweeping[hub] = self._tasks.start(self._sweep_changed(hub))
        task.add_done_callback(lambda _: self._sweeping.pop(hub, None))

    async def _sweep_changed(self, hub: str) -> None:
        self._again.add(hub)
        while hub in self._again:
            self._again.discard(hub)
            try:
                await self._sweep(hub)
            except HubbubError as error:
                logger.info("hub %s: the search index is looked at again later: %s", hub, error)
            except Exception:
                logger.exception("hub %s: the search index was not looked at", hub)

    async def _sweep(self, hub: str) -> None:
        """Indexes one channel of the hub after the other. Raises `StoreUnavailable`."""
        try:
            configuration = self._configuration_of(hub)
        except (*HUB_AWAY, InvalidName):
            return  # it is being deleted
        async for channel in self._unsettled(configuration):
            if hub in self._suspended:
                return
            if partition_of(hub, channel) not in self._terms:
                continue
            try:
                await asyncio.shield(self._build(hub, channel))
            except HubbubError as error:
                logger.info("hub %s: the index of %r is not complete: %s", hub, channel, error)

    async def _unsettled(self, configuration: HubConfiguration) -> AsyncIterator[str]:
        """Channels whose index is not what their rules say."""
        hub, begin = configuration.hub, ""
        while page := await self._store.read_indexed_channels(hub, begin, _PAGE):
            for each in page:
                if not each.complete or not is_searched(
                    each.name, configuration.rules_for(each.name)
                ):
                    yield each.name
            begin = f"{page[-1].name}\x01"
        if not self._searching(hub):
            return
        after = ""
        while stored := await self._store.read_channels(hub, after, _PAGE):
            names = [
                each.name
                for each in stored
                if is_searched(each.name, configuration.rules_for(each.name))
            ]
            begun = {
                each.name for each in await self._store.read_indexed_channels(hub, after, _PAGE)
            }
            for name in names:
                if name not in begun:
                    yield name
            after = stored[-1].name

    # -- the life of a hub ----------------------------------------------------------------------

    async def hub_suspending(self, hub: str) -> None:
        self._suspended.add(hub)
        tasks = [task for (of, _), task in self._building.items() if of == hub]
        tasks += [self._sweeping[hub]] if hub in self._sweeping else []
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def hub_resumed(self, hub: str) -> None:
        self._suspended.discard(hub)
        self.hub_changed(hub)

    async def stop(self) -> None:
        await self._tasks.end()
