"""Ownership: applies the ring on one node.

Partitions that the ring assigns to others are released at once. Assigned ones are taken over in the
store, in one batch, which fences their previous owners; then they are served. Nodes that follow
moved channels contact the new owners by themselves (`engine.delivery.renewal`)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Protocol

from hubbub.domain.errors import HubbubError
from hubbub.domain.names import PARTITIONS
from hubbub.domain.ring import NO_RING, Ring
from hubbub.engine.channels.owner import ChannelOwner
from hubbub.ports.storage.partitions import PartitionStore

logger = logging.getLogger(__name__)

SETTLE_SECONDS = 0.5
"""How long followers of channels may take to report to the new owner."""
RETRY_SECONDS = 0.1

MayTake = Callable[[], Awaitable[bool]]
"""Whether this node may take partitions over from nodes that it does not hear."""


class OwnershipListener(Protocol):
    def owners_changed(self, partitions: Collection[int]) -> None:
        """The ring is another one, or this node has taken over partitions. `partitions` have
        another owner than before."""

    def ring_effective(self, version: str) -> None:
        """This node serves all partitions that the ring gives it."""

    def partitions_regained(self, partitions: Collection[int]) -> None:
        """This node took these partitions over again, without a change of the ring."""


class Ownership:
    """Implements `cluster.transport.Owners`."""

    def __init__(self, node: str, store: PartitionStore, may_take: MayTake) -> None:
        self._node = node
        self._store = store
        self._may_take = may_take
        self.ring: Ring = NO_RING
        self._lives: Mapping[str, str] = {}
        self._served = [False] * PARTITIONS
        self._releasing: dict[int, asyncio.Task[Any]] = {}
        self._taking: asyncio.Task[None] | None = None
        self._fenced: set[int] = set()
        self._closed = False
        self._owner: ChannelOwner
        self._listener: OwnershipListener

    def connect(self, owner: ChannelOwner, listener: OwnershipListener) -> None:
        self._owner = owner
        self._listener = listener

    # -- what the bus asks ----------------------------------------------------------------------

    def owner_of(self, partition: int) -> str:
        return self.ring.owners[partition]

    def serves(self, partition: int) -> bool:
        return self._served[partition]

    @property
    def served(self) -> list[int]:
        return [partition for partition, served in enumerate(self._served) if served]

    # -- what changes it ------------------------------------------------------------------------

    def follow(self, ring: Ring, lives: Mapping[str, str], afresh: bool = False) -> None:
        """Applies the ring, with these lives of its nodes. `afresh`: this node's partitions may
        have had other owners meanwhile."""
        before, former = self.ring, self._lives
        self.ring, self._lives = ring, lives
        moved = [
            partition
            for partition in range(PARTITIONS)
            if before.owners[partition] != ring.owners[partition]
            or former.get(before.owners[partition]) != lives.get(ring.owners[partition])
        ]
        mine = {} if afresh else dict.fromkeys(ring.partitions_of(self._node))
        self._release([partition for partition in self.served if partition not in mine])
        self._take()
        if moved:
            self._listener.owners_changed(moved)

    async def is_untouched(self) -> bool:
        """Whether no other node took over this node's partitions, as far as the store can tell."""
        served = self.served
        try:
            terms = await self._store.read_terms(served)
        except HubbubError:
            return False
        return all(terms.get(each) == self._owner.terms.get(each) for each in served)

    def fenced(self, partition: int) -> None:
        """The store reported another owner of a partition that this node serves."""
        if self._served[partition]:
            logger.warning("partition %d was taken over by another node", partition)
            self._fenced.add(partition)
            self._release([partition])
            self._take()
            self._listener.owners_changed((partition,))

    async def close(self) -> None:
        self._closed = True
        tasks: list[asyncio.Task[Any]] = [*self._releasing.values()]
        if self._taking is not None:
            self._taking.cancel()
            tasks.append(self._taking)
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- letting go -----------------------------------------------------------------------------

    def _release(self, partitions: Collection[int]) -> None:
        if not partitions:
            return
        for partition in partitions:
            self._served[partition] = False
        released = frozenset(partitions)
        task = asyncio.get_running_loop().create_task(self._owner.release(released))
        for partition in partitions:
            self._releasing[partition] = task

        def done(_: asyncio.Task[None]) -> None:
            for partition in released:
                if self._releasing.get(partition) is task:
                    del self._releasing[partition]

        task.add_done_callback(done)

    # -- taking over ----------------------------------------------------------------------------

    def _missing(self) -> list[int]:
        return [p for p in self.ring.partitions_of(self._node) if not self._served[p]]

    def _take(self) -> None:
        if not self._missing():
            self._listener.ring_effective(self.ring.version)
        elif self._taking is None and not self._closed:
            self._taking = asyncio.get_running_loop().create_task(self._take_all())

    async def _take_all(self) -> None:
        told = ""
        try:
            while missing := self._missing():
                try:
                    await self._take_over(missing)
                except HubbubError as error:
                    if str(error) != told:  # it is tried many times a second
                        told = str(error)
                        logger.warning("cannot take partitions over yet: %s", told)
                    await asyncio.sleep(RETRY_SECONDS)
        finally:
            self._taking = None
        self._listener.ring_effective(self.ring.version)

    async def _take_over(self, missing: list[int]) -> None:
        """Raises `StoreUnavailable`."""
        if not await self._may_take():
            await asyncio.sleep(RETRY_SECONDS)
            return
        while releasing := {self._releasing[p] for p in missing if p in self._releasing}:
            await asyncio.wait(releasing)
        asked = frozenset(missing)
        seen = await self._store.read_terms(missing)
        # The ring may be another one by now, or become another one while the store is asked: what
        # its new owner has taken over meanwhile stays with that owner.
        missing = [partition for partition in self._missing() if partition in asked]
        if not missing:
            return
        terms = await self._store.acquire_partitions(missing, self._node, seen)
        wanted = set(self._missing())
        taken = {partition: term for partition, term in terms.items() if partition in wanted}
        self._owner.start(taken, SETTLE_SECONDS)
        for partition in taken:
            self._served[partition] = True
        logger.info("took %d partitions over, serving %d", len(taken), len(self.served))
        self._listener.owners_changed(())
        regained = self._fenced & taken.keys()
        self._fenced -= regained  # others may have been fenced meanwhile: their turn comes
        if regained:
            self._listener.partitions_regained(regained)
