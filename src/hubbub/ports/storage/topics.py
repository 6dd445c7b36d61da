"""Producers and durable subscriptions."""

from __future__ import annotations

from typing import Protocol

import msgspec

from hubbub.domain.messages import Message
from hubbub.ports.storage.audited import Audited
from hubbub.ports.storage.messages import ChannelHead, MessageHistory


class ProducerRecord(msgspec.Struct, frozen=True):
    """A producer of puts to one channel. `sequence` is the number of its last put, 0 before the
    first; it outlives the message."""

    id: int
    fence: int
    sequence: int


class SavedCursor(msgspec.Struct, frozen=True):
    """The saved cursor of a durable subscription: everything up to `floor` is acknowledged, `state`
    is the engine's encoding of the rest."""

    hub: str
    channel: str
    owner: str
    name: str
    floor: int
    state: bytes


class TopicStore(Audited, MessageHistory, Protocol):
    """Producers and cursors: the state of exactly-once delivery."""

    async def open_producer(
        self,
        hub: str,
        channel: str,
        principal: str,
        producer: str,
        partition: int,
        term: int,
        take_over: bool,
        at_most: int,
    ) -> ProducerRecord:
        """Returns the stored producer, creating it if necessary. `take_over` increments its fence.
        Raises `StaleOwner`, and `QuotaExceeded` if it is new and the principal already has
        `at_most` producers of the channel."""

    async def read_producer(
        self, hub: str, channel: str, principal: str, producer: str
    ) -> ProducerRecord | None:
        """The stored producer; None if it was never opened."""

    async def read_put(
        self, producer_id: int, sequence: int, hub: str, channel: str
    ) -> Message | None:
        """The message that a producer put under this sequence number; None: never put, or
        deleted."""

    async def create_cursor(self, cursor: SavedCursor, partition: int, term: int) -> None:
        """Like `save_cursor`, for a new subscription. Raises `StaleOwner`, `QuotaExceeded`."""

    async def save_cursor(self, cursor: SavedCursor, partition: int, term: int) -> None:
        """Creates or replaces. Raises `StaleOwner`."""

    async def delete_cursor(
        self, hub: str, channel: str, owner: str, name: str, partition: int, term: int
    ) -> bool:
        """Returns whether it existed. Raises `StaleOwner`."""

    async def read_cursors(
        self,
        hub: str,
        channel: str | None = None,
        owner: str | None = None,
        after: tuple[str, str, str] | None = None,
        limit: int | None = None,
        text: str = "",
    ) -> list[SavedCursor]:
        """Cursors of one channel or all, of one owner or all; ordered by channel, owner, name,
        after `after`. `text`: only those with it in one of the three."""

    async def count_cursors(
        self, hub: str, channel: str | None = None, owner: str | None = None, text: str = ""
    ) -> int:
        """The total number of cursors that `read_cursors` finds."""

    async def read_cursor_page(
        self, after: tuple[str, str, str, str] | None, limit: int
    ) -> list[tuple[SavedCursor, ChannelHead | None]]:
        """Cursors of all hubs with their channels' heads, ordered by hub, channel, owner, name,
        after `after`."""
