"""The communication service's tables: open messages, due deliveries, peers and collectives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from hubbub.domain.communication.peers import CollectiveInfo, PeerInfo
from hubbub.domain.communication.steps import CommunicationStep, DeliveryRow
from hubbub.domain.messages import Message
from hubbub.ports.storage.audited import Audited


class LoggedMessage(msgspec.Struct, frozen=True):
    """A message of the log with its state (`domain.communication.steps`)."""

    message: Message
    digest: bytes
    state: int
    plan: bytes | None = None


class LogQuery(msgspec.Struct, frozen=True):
    """Selects messages of the log; empty fields match anything. `since` and `until` are in
    milliseconds since 1970, both inclusive."""

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
    """A page, newest first. `before` is the start of the next page, None after the last. A page may
    be empty although others follow: a store examines a bounded number of messages per page."""

    messages: tuple[LoggedMessage, ...]
    before: int | None


class PeerToken(msgspec.Struct, frozen=True):
    """A peer's current token; a new one replaces it."""

    hub: str
    peer: str
    token_hash: bytes
    expires_at: int
    """Milliseconds since 1970."""


class CommunicationStore(Audited, Protocol):
    async def save_step(self, hub: str, step: CommunicationStep, partition: int, term: int) -> None:
        """Atomic. Raises `StaleOwner`."""

    async def read_logged(self, hub: str, ids: Sequence[str]) -> list[LoggedMessage]:
        """The messages with these ids that are still in the log, by ascending serial."""

    async def read_open(self, hub: str, after: int, limit: int) -> list[LoggedMessage]:
        """Undecided messages by ascending serial, after `after`."""

    async def read_deliveries(
        self, hub: str, state: int, after: tuple[int, int], limit: int
    ) -> list[DeliveryRow]:
        """Deliveries by ascending serial and ordinal, after `after`."""

    async def read_deliveries_of(self, hub: str, keys: Sequence[str]) -> list[DeliveryRow]: ...

    async def read_busy_hubs(self) -> list[str]:
        """Hubs with open messages or due deliveries."""

    async def query_log(self, query: LogQuery, before: int | None, limit: int) -> LogPage: ...

    async def save_peers(self, hub: str, peers: Sequence[tuple[str, PeerInfo]], most: int) -> bool:
        """Creates or replaces peers. Returns False, without effect, if the hub would have more than
        `most`."""

    async def read_peers(self, hub: str, ids: Sequence[str]) -> list[tuple[str, PeerInfo]]: ...

    async def list_peers(self, hub: str, after: str, limit: int) -> list[tuple[str, PeerInfo]]:
        """Peers by ascending id, after `after`."""

    async def delete_peer(self, hub: str, peer: str) -> bool:
        """Deletes a peer with its token and memberships. Returns whether it existed."""

    async def save_collective(
        self, hub: str, collective: str, info: CollectiveInfo, most: int
    ) -> bool:
        """Creates or replaces a collective with its members. Returns False, without effect, if the
        hub has `most` others already."""

    async def read_collective(self, hub: str, collective: str) -> CollectiveInfo | None: ...

    async def list_collectives(self, hub: str, after: str, limit: int) -> list[tuple[str, str]]:
        """Names and policies by ascending name, after `after`."""

    async def delete_collective(self, hub: str, collective: str) -> bool: ...

    async def add_member(self, hub: str, collective: str, peer: str, most: int) -> bool | None:
        """Appends a member; an existing member keeps its position. Returns None if there is no such
        collective, False if it has `most` members already."""

    async def delete_member(self, hub: str, collective: str, peer: str) -> bool:
        """Returns whether the peer was a member."""

    async def save_peer_token(self, token: PeerToken) -> None: ...

    async def read_peer_token(self, hub: str, peer: str) -> PeerToken | None: ...
