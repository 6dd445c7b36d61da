"""Leases: show which nodes reach the database even if they are not heard on the bus.

Each core node increments a counter of its own in the store. A node whose counter does not change
for a while is dead, or cut off from the database, so that it cannot write. A node may take
partitions over from nodes that it does not hear only if it hears the majority of all live nodes.
Otherwise it may be the one that is cut off, and would take partitions from live owners, which take
them back, and so on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from hubbub.cluster.membership import Membership
from hubbub.domain.errors import HubbubError
from hubbub.ports.storage.partitions import PartitionStore

logger = logging.getLogger(__name__)

BEAT_SECONDS = 0.5
LAPSE_SECONDS = 2.0


class Leases:
    """One node's view. `run` continues while the node is a member."""

    def __init__(
        self,
        node: str,
        store: PartitionStore,
        membership: Membership,
        is_deaf: Callable[[], bool],
        monotonic: Callable[[], float],
    ) -> None:
        self._node = node
        self._store = store
        self._membership = membership
        self._is_deaf = is_deaf
        self._monotonic = monotonic
        self._beats: dict[str, tuple[int, float]] = {}
        self._gone: set[str] = set()
        self._waiting_for: frozenset[str] = frozenset()

    async def run(self) -> None:
        failing = False
        while True:
            try:
                await self.beat()
                failing = False
            except HubbubError as error:
                if not failing:
                    logger.warning("this node cannot renew its lease in the database: %s", error)
                failing = True
            await asyncio.sleep(BEAT_SECONDS)

    async def beat(self) -> None:
        """Raises `StoreUnavailable`."""
        beats = await self._store.count_beat(self._node)
        now = self._monotonic()
        for node, count in beats.items():
            known = self._beats.get(node)
            if known is None or known[0] != count:
                self._beats[node] = (count, now)
                self._gone.discard(node)
        for node in self._beats.keys() - beats.keys():
            del self._beats[node]

    def gone(self, node: str) -> None:
        """The node reported that it lost its connection to the bus: it takes nothing over, and its
        writes are refused once another node takes over."""
        self._gone.add(node)

    async def may_take(self) -> bool:
        """Whether this node may take over from nodes that it does not hear. Raises
        `StoreUnavailable`."""
        if self._is_deaf():
            return False
        await self.beat()
        unheard = self._unheard()
        heard = [beat for beat in self._membership.beats if beat.role == "core"]
        if len(heard) > len(unheard):
            return True
        if unheard != self._waiting_for:
            self._waiting_for = unheard
            names = ", ".join(sorted(unheard))
            logger.warning(
                "waiting to take partitions over: %s may be alive, but cannot be heard", names
            )
        return False

    def _unheard(self) -> frozenset[str]:
        """Nodes that the database shows as live and that are not heard."""
        now = self._monotonic()
        heard = set(self._membership.nodes)
        return frozenset(
            node
            for node, (_, at) in self._beats.items()
            if now - at <= LAPSE_SECONDS and node not in heard and node not in self._gone
        )
