"""Taking one hub away from a node for a moment, so that the store can replace what it holds of
it."""

from __future__ import annotations

import asyncio

from hubbub.domain.errors import HubRestoring, Unavailable
from hubbub.engine.channels.owner import ChannelOwner
from hubbub.engine.directory import Directory
from hubbub.engine.node import Node
from hubbub.ports.storage import Store

_QUIET_SECONDS = 10.0


class HubSuspension:
    """Of one node: its sessions, and the channels that it owns. Other hubs notice nothing.
    Implements `engine.administration.restoring.Suspending`."""

    def __init__(self, store: Store, directory: Directory, owner: ChannelOwner, node: Node) -> None:
        self._store = store
        self._directory = directory
        self._owner = owner
        self._node = node

    async def suspend(self, hub: str) -> int:
        """Sessions of the hub are told to connect again; who comes meanwhile is refused with
        `HubRestoring`. When this returns, nothing of the hub is in memory or under way, and nothing
        more is written. Answers how many sessions there were. Raises `Unavailable` where that takes
        too long: call `resume` then."""
        error = HubRestoring(f"hub {hub!r} is being restored from a backup; connect again")
        known = self._node.hubs.get(hub)
        sessions = len(known.sessions) if known is not None else 0
        self._directory.suspend(hub)
        try:
            async with asyncio.timeout(_QUIET_SECONDS):
                await self._owner.communication.hub_suspended(hub)
                self._store.hold_writes(hub, error)
                self._node.hub_changed(hub)
                await self._owner.suspend_hub(hub)
                await self._store.settle_writes(hub)
        except TimeoutError:
            raise Unavailable(f"hub {hub!r} did not come to rest in time; try again") from None
        return sessions

    async def resume(self, hub: str) -> None:
        """The hub goes on as the store has it now. Raises `StoreUnavailable`."""
        self._store.release_writes(hub)
        await self._directory.resume(hub)
        self._node.hub_changed(hub)
        await self._owner.resume_hub(hub)
