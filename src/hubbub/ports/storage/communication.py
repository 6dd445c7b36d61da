"""The communication service on disk: what is open, what is due, and who is reached how."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from hubbub.domain.communication.peers import CollectiveInfo, PeerInfo
from hubbub.domain.communication.steps import CommunicationStep, DeliveryRow
from hubbub.domain.messages import Message


class LoggedMessage(msgspec.Struct, frozen=True):
    """A message of the log, with what became of it (`domain.communication.steps`)."""

    message: Message
    digest: bytes
    state: int
    plan: bytes | None = None


class LogQuery(msgspec.Struct, frozen=True):
    """Which messages of the log; empty fields match anything. `since` and `until` are times in
    milliseconds since 1970, both included."""

    hub: str
    id: str = ""
    type: str = ""
    subtype: str = ""
    sender: str = ""
    receiver: str = ""
    conversation: str = ""
    since: int | None = None
    until: int | None = None


class LogPage(msgspec.Struct, frozen=True):
    """The newest first. `before` is where the next page begins, None after the last. A page may be
    empty though others follow: a store looks at a bounded number of messages for each."""

    messages: tuple[LoggedMessage, ...]
    before: int | None


class PeerToken(msgspec.Struct, frozen=True):
    """One for each peer: a new one replaces the old."""

    hub: str
    peer: str
    token_hash: bytes
    expires_at: int
    """Milliseconds since 1970."""


class CommunicationStore(Protocol):
    async def save_step(self, hub: str, step: CommunicationStep, partition: int, term: int) -> None:
        """All of it or nothing. Raises `StaleOwner`."""

    async def read_logged(self, hub: str, ids: Sequence[str]) -> list[LoggedMessage]:
        """Those of these ids that the log still has, by rising serial."""

    async def read_open(self, hub: str, after: int, limit: int) -> list[LoggedMessage]:
        """Messages that are not decided, by rising serial behind `after`."""

    async def read_deliveries(
        self, hub: str, state: int, after: tuple[int, int], limit: int
    ) -> list[DeliveryRow]:
        """By rising serial and ordinal, behind these."""

    async def read_deliveries_of(self, hub: str, keys: Sequence[str]) -> list[DeliveryRow]: ...

    async def read_busy_hubs(self) -> list[str]:
        """Hubs with messages that are open or deliveries that are due."""

    async def query_log(self, query: LogQuery, before: int | None, limit: int) -> LogPage: ...

    async def save_peers(self, hub: str, peers: Sequence[tuple[str, PeerInfo]], most: int) -> bool:
        """Create or replace. False: the hub would have more than `most`; nothing is saved then."""

    async def read_peers(self, hub: str, ids: Sequence[str]) -> list[tuple[str, PeerInfo]]: ...

    async def list_peers(self, hub: str, after: str, limit: int) -> list[tuple[str, PeerInfo]]:
        """By rising id, behind `after`."""

    async def delete_peer(self, hub: str, peer: str) -> bool:
        """Whether there was one; it leaves all collectives, and its token goes."""

    async def save_collective(
        self, hub: str, collective: str, info: CollectiveInfo, most: int
    ) -> bool:
        """Create or replace, members included. False: the hub has `most` others already."""

    async def read_collective(self, hub: str, collective: str) -> CollectiveInfo | None: ...

    async def list_collectives(self, hub: str, after: str, limit: int) -> list[tuple[str, str]]:
        """Names and policies, by rising name behind `after`."""

    async def delete_collective(self, hub: str, collective: str) -> bool: ...

    async def add_member(self, hub: str, collective: str, peer: str, most: int) -> bool | None:
        """Behind the other members; one that is there stays where it is. None: there is no such
        collective. False: it has `most` members already."""

    async def delete_member(self, hub: str, collective: str, peer: str) -> bool:
        """Whether it was one."""

    async def save_peer_token(self, token: PeerToken) -> None: ...

    async def read_peer_token(self, hub: str, peer: str) -> PeerToken | None: ...
