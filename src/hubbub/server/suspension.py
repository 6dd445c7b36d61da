"""Suspends one hub on a node, so that the store can replace its data."""

from __future__ import annotations

import asyncio

from hubbub.domain.errors import HubRestoring, Unavailable
from hubbub.engine.channels.owner import ChannelOwner
from hubbub.engine.directory import Directory
from hubbub.engine.node import Node
from hubbub.ports.storage import Store

_QUIET_SECONDS = 10.0


class HubSuspension:
    """Suspends a hub's sessions, and the channels that this node owns; other hubs are unaffected.
    Implements `engine.administration.restoring.Suspending`."""

    def __init__(self, store: Store, directory: Directory, owner: ChannelOwner, node: Node) -> None:
        self._store = store
        self._directory = directory
        self._owner = owner
        self._node = node

    async def suspend(self, hub: str) -> int:
        """Tells the hub's sessions to reconnect; new ones are refused with `HubRestoring`. When
        this returns, no data of the hub is in memory or in flight, and nothing more is written.
        Returns the number of sessions. Raises `Unavailable` on a timeout: call `resume` then."""
        error = HubRestoring(f"hub {hub!r} is being restored from a backup; connect again")
        known = self._node.hubs.get(hub)
        sessions = len(known.sessions) if known is not None else 0
        self._directory.suspend(hub)
        try:
            async with asyncio.timeout(_QUIET_SECONDS):
                await self._owner.prepare_suspension(hub)
                self._store.hold_writes(hub, error)
                self._node.hub_changed(hub)
                await self._owner.suspend_hub(hub)
                await self._store.settle_writes(hub)
        except TimeoutError:
            raise Unavailable(f"hub {hub!r} did not come to rest in time; try again") from None
        return sessions

    async def resume(self, hub: str) -> None:
        """Resumes the hub with the store's current data. Raises `StoreUnavailable`."""
        self._store.release_writes(hub)
        await self._directory.resume(hub)
        self._node.hub_changed(hub)
        await self._owner.resume_hub(hub)
