"""What the owner of channels knows of who decides about messages to peers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from hubbub.domain.communication.requests import CommunicationAnswer, CommunicationRequest
from hubbub.domain.errors import Unavailable


class Communicating(Protocol):
    def owned(self, partitions: Collection[int]) -> None:
        """The owner begins to own these."""

    async def released(self, partitions: Collection[int]) -> None:
        """Another node owns these now."""

    def hub_changed(self, hub: str) -> None:
        """The settings of a hub changed, or it is gone."""

    async def hub_suspended(self, hub: str) -> None:
        """The hub is away: nothing of it is under way when this returns."""

    async def serve(self, request: CommunicationRequest) -> CommunicationAnswer:
        """What the request says, for a hub whose log this node owns."""


class NoCommunication:
    """Where nobody decides about messages to peers."""

    def owned(self, partitions: Collection[int]) -> None:
        pass

    async def released(self, partitions: Collection[int]) -> None:
        pass

    def hub_changed(self, hub: str) -> None:
        pass

    async def hub_suspended(self, hub: str) -> None:
        pass

    async def serve(self, request: CommunicationRequest) -> CommunicationAnswer:
        raise Unavailable("this node sends no messages to peers")
