"""Who knows peers and collectives besides the hub's own store, and who hears of messages: as Python
objects. Callbacks of a hub's settings are the same over HTTP."""

from __future__ import annotations

from typing import Protocol

from hubbub.domain.communication.messages import PeerMessage
from hubbub.domain.communication.peers import CollectiveInfo, PeerInfo


class PeerDirectory(Protocol):
    """Asked for what the hub's store does not have. Whatever it raises fails the delivery that it
    was asked for."""

    async def peer_info(self, hub: str, peer: str) -> PeerInfo | None:
        """None: there is no such peer. The answer is cached for ten minutes."""
        ...

    async def collective_info(self, hub: str, collective: str) -> CollectiveInfo | None:
        """None: there is no such collective. Asked for every message."""
        ...

    async def authenticate(self, hub: str, peer: str, password: str) -> bool:
        """Whether the password is the peer's."""
        ...


class NotificationCallback(Protocol):
    async def notify(self, hub: str, message: PeerMessage) -> None:
        """A message without a receiver, or to a component. Every callback gets all of them; what
        one raises is logged and harms no other."""
        ...
