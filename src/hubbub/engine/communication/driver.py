"""Communication of the hubs whose logs this node owns; it starts and stops with the ownership of
their partitions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection

from hubbub.domain.communication.requests import (
    AdaptersDescribed,
    DeliverMessage,
    DescribeAdapters,
    DiscardDeliveries,
    ForgetPeer,
    LogMessage,
    PeerChanged,
    PullAdapter,
    ReplayDeliveries,
    SendMessage,
    VerdictTold,
)
from hubbub.domain.errors import HubbubError, Unavailable
from hubbub.domain.names import COMMUNICATION_LOG, partition_of
from hubbub.engine.access.revocations import ANY_HUB
from hubbub.engine.channels.rooms import OwnerRoom
from hubbub.engine.communication.committing import AGAIN_SECONDS
from hubbub.engine.communication.hub_communication import CommunicationParts, HubCommunication
from hubbub.engine.communication.log import LogWriter

logger = logging.getLogger(__name__)


class CommunicationDriver(OwnerRoom):
    """Runs communication for the hubs whose logs this node owns."""

    def __init__(
        self,
        parts: CommunicationParts,
        stop_seconds: float,
        close: Callable[[], Awaitable[None]],
    ) -> None:
        """`stop_seconds`: how long deliveries in progress may take when the node stops. `close`
        releases resources shared by adapters."""
        self.parts = parts
        self.directories = parts.directories
        self.callbacks = parts.callbacks
        self._stop_seconds = stop_seconds
        self._close = close
        self._hubs: dict[str, HubCommunication] = {}
        self._closing = False
        self.ordered_requests = {LogMessage: LogWriter()}
        self.owner_requests = {
            SendMessage: self._send,
            DeliverMessage: self._deliver,
            PullAdapter: self._pull,
            ReplayDeliveries: self._replay,
            DiscardDeliveries: self._discard,
            DescribeAdapters: self._describe,
            PeerChanged: self._told_of_peers,
            ForgetPeer: self._forget_peer,
        }

    def owned(self, partitions: Collection[int]) -> None:
        self.parts.tasks.start(self._resume(set(partitions)))

    async def _resume(self, partitions: set[int]) -> None:
        """Resumes hubs with open messages or listening adapters."""
        while not self._closing:
            try:
                busy = await self.parts.store.read_busy_hubs()
                break
            except HubbubError as error:
                logger.warning("open messages cannot be read yet: %s", error)
            await asyncio.sleep(AGAIN_SECONDS)
        else:
            return
        directory = self.parts.directory
        listening = [hub for hub in directory.names() if directory.get(hub).adapters]
        for hub in {*busy, *listening}:
            if partition_of(hub, COMMUNICATION_LOG) in partitions:
                self._find(hub)

    async def released(self, partitions: Collection[int]) -> None:
        gone = [
            hub for hub in self._hubs if partition_of(hub, COMMUNICATION_LOG) in set(partitions)
        ]
        await asyncio.gather(*(self._hubs.pop(hub).stop(0.0) for hub in gone))

    def hub_changed(self, hub: str) -> None:
        if hub == ANY_HUB or self._closing:
            return
        known = self._hubs.get(hub)
        try:
            configuration = self.parts.directory.get(hub)
        except HubbubError:
            if known is not None:
                del self._hubs[hub]
                self.parts.tasks.start(known.stop(0.0))
            return
        if known is not None:
            known.configure(configuration)
        elif configuration.adapters:
            self._find(hub)

    async def hub_suspending(self, hub: str) -> None:
        known = self._hubs.pop(hub, None)
        if known is not None:
            await known.stop(0.0)

    async def hub_resumed(self, hub: str) -> None:
        self.owned([partition_of(hub, COMMUNICATION_LOG)])

    def _find(self, hub: str) -> HubCommunication | None:
        """Returns None if another node owns the hub's log."""
        found = self._hubs.get(hub)
        if found is None and not self._closing:
            if partition_of(hub, COMMUNICATION_LOG) not in self.parts.terms:
                return None
            try:
                found = self._hubs[hub] = HubCommunication(self.parts, hub)
            except HubbubError as error:
                logger.warning("hub %s: communication did not start: %s", hub, error)
        return found

    async def _ready(self, name: str) -> HubCommunication:
        """Raises `Unavailable` if another node now owns the hub's log."""
        hub = self._find(name)
        if hub is None:
            raise Unavailable(f"this node does not own the log of hub {name!r}")
        if not hub.ready.done():
            await asyncio.wait([hub.ready])
        return hub

    async def _send(self, request: SendMessage) -> str:
        return await (await self._ready(request.hub)).intake.send(request)

    async def _deliver(self, request: DeliverMessage) -> VerdictTold:
        hub = await self._ready(request.hub)
        return await hub.dispatcher.deliver(request.message, request.wait_seconds)

    async def _pull(self, request: PullAdapter) -> None:
        (await self._ready(request.hub)).inputs.pull(request.adapter)

    async def _replay(self, request: ReplayDeliveries) -> int:
        hub = await self._ready(request.hub)
        return await hub.dispatcher.replay(request.keys, request.audit)

    async def _discard(self, request: DiscardDeliveries) -> int:
        return await (await self._ready(request.hub)).dispatcher.discard(
            request.keys, request.audit
        )

    async def _describe(self, request: DescribeAdapters) -> AdaptersDescribed:
        hub = await self._ready(request.hub)
        return AdaptersDescribed(hub.dispatcher.instances.describe())

    async def _told_of_peers(self, request: PeerChanged) -> None:
        await (await self._ready(request.hub)).peers_changed(request.peers)

    async def _forget_peer(self, request: ForgetPeer) -> None:
        (await self._ready(request.hub)).forget(request.peer)

    def sweep(self) -> None:
        """Called every second."""
        for hub in self._hubs.values():
            hub.sweep()

    def waiting(self) -> dict[str, int]:
        """Deliveries that are queued or in progress, by hub."""
        return {name: hub.dispatcher.queues.waiting for name, hub in self._hubs.items()}

    async def stop(self) -> None:
        """Waits, within a bound, for deliveries in progress, and stores their outcomes."""
        self._closing = True
        hubs, self._hubs = self._hubs, {}
        await asyncio.gather(*(hub.stop(self._stop_seconds) for hub in hubs.values()))
        await self.parts.tasks.end()
        await self._close()
