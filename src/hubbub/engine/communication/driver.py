"""The communication of the hubs whose logs this node owns: it comes and goes with the partitions of
their logs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection

from hubbub.domain.communication.requests import (
    AdaptersDescribed,
    CommunicationAnswer,
    CommunicationRequest,
    DeliverMessage,
    DescribeAdapters,
    DiscardDeliveries,
    ForgetPeer,
    PeerChanged,
    PullAdapter,
    ReplayDeliveries,
    SendMessage,
)
from hubbub.domain.errors import HubbubError, Unavailable
from hubbub.domain.names import COMMUNICATION_LOG, partition_of
from hubbub.engine.access.revocations import ANY_HUB
from hubbub.engine.communication.committing import AGAIN_SECONDS
from hubbub.engine.communication.hub_communication import CommunicationParts, HubCommunication

logger = logging.getLogger(__name__)


class CommunicationDriver:
    """Of one node; on the event loop's thread. Implements
    `engine.channels.communication.Communicating`."""

    def __init__(
        self,
        parts: CommunicationParts,
        stop_seconds: float,
        close: Callable[[], Awaitable[None]],
    ) -> None:
        """`stop_seconds` is the time that deliveries under way have when the node stops. `close`
        ends what adapters share."""
        self.parts = parts
        self.directories = parts.directories
        self.callbacks = parts.callbacks
        self._stop_seconds = stop_seconds
        self._close = close
        self._hubs: dict[str, HubCommunication] = {}
        self._closing = False

    def owned(self, partitions: Collection[int]) -> None:
        self.parts.tasks.start(self._resume(set(partitions)))

    async def _resume(self, partitions: set[int]) -> None:
        """Go on with the hubs that have something under way, or adapters that listen."""
        while not self._closing:
            try:
                busy = await self.parts.store.read_busy_hubs()
                break
            except HubbubError as error:
                logger.warning("open messages cannot be read yet: %s", error.message)
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

    async def hub_suspended(self, hub: str) -> None:
        known = self._hubs.pop(hub, None)
        if known is not None:
            await known.stop(0.0)

    def _find(self, hub: str) -> HubCommunication | None:
        """None: another node owns the hub's log."""
        found = self._hubs.get(hub)
        if found is None and not self._closing:
            if partition_of(hub, COMMUNICATION_LOG) not in self.parts.terms:
                return None
            try:
                found = self._hubs[hub] = HubCommunication(self.parts, hub)
            except HubbubError as error:
                logger.warning("hub %s does not communicate: %s", hub, error.message)
        return found

    async def serve(self, request: CommunicationRequest) -> CommunicationAnswer:
        """Raises `Unavailable` where another node owns the hub's log by now."""
        hub = self._find(request.hub)
        if hub is None:
            raise Unavailable(f"this node does not own the log of hub {request.hub!r}")
        if not hub.ready.done():
            await asyncio.wait([hub.ready])
        answer: CommunicationAnswer = None
        if isinstance(request, SendMessage):
            answer = await hub.intake.send(request)
        elif isinstance(request, DeliverMessage):
            answer = await hub.exchange.deliver(request.message, request.wait_seconds)
        elif isinstance(request, PullAdapter):
            hub.inputs.pull(request.adapter)
        elif isinstance(request, ReplayDeliveries):
            answer = await hub.exchange.replay(request.keys)
        elif isinstance(request, DiscardDeliveries):
            answer = await hub.exchange.discard(request.keys)
        elif isinstance(request, DescribeAdapters):
            answer = AdaptersDescribed(hub.exchange.instances.describe())
        elif isinstance(request, PeerChanged):
            await hub.peers_changed(request.peers)
        elif isinstance(request, ForgetPeer):
            hub.forget(request.peer)
        return answer

    def sweep(self) -> None:
        """Called every second."""
        for hub in self._hubs.values():
            hub.sweep()

    def waiting(self) -> dict[str, int]:
        """Deliveries that wait or are under way, by hub."""
        return {name: hub.exchange.lanes.waiting for name, hub in self._hubs.items()}

    async def stop(self) -> None:
        """Let what is under way end, within a bound, and have its outcome on disk."""
        self._closing = True
        hubs, self._hubs = self._hubs, {}
        await asyncio.gather(*(hub.stop(self._stop_seconds) for hub in hubs.values()))
        await self.parts.tasks.end()
        await self._close()
