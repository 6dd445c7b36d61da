"""In-process callbacks: directories of peers and collectives besides the hub's store, and listeners
for messages. Callbacks in a hub's settings do the same over HTTP."""

from __future__ import annotations

from typing import Protocol

from hubbub.domain.communication.messages import PeerMessage
from hubbub.domain.communication.peers import CollectiveInfo, PeerInfo


class PeerDirectory(Protocol):
    """Resolves peers and collectives that are not in the hub's store. An exception fails the
    delivery that needed the lookup. A class that derives from this one implements what it knows;
    the other methods know nothing."""

    async def peer_info(self, hub: str, peer: str) -> PeerInfo | None:
        """Returns None if there is no such peer. The result is cached for ten minutes."""
        return None

    async def collective_info(self, hub: str, collective: str) -> CollectiveInfo | None:
        """Returns None if there is no such collective. Called for every message."""
        return None

    async def authenticate(self, hub: str, peer: str, password: str) -> bool:
        """Whether the password is the peer's."""
        return False


class NotificationCallback(Protocol):
    async def notify(self, hub: str, message: PeerMessage) -> None:
        """Receives a message without a receiver, or to a component. Every callback receives all of
        them; an exception is logged and does not affect the others."""
        ...
