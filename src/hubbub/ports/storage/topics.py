"""Producers and durable subscriptions."""

from __future__ import annotations

from typing import Protocol

import msgspec

from hubbub.domain.messages import Message
from hubbub.ports.storage.messages import ChannelHead, MessageHistory


class ProducerRecord(msgspec.Struct, frozen=True):
    """A producer of puts to one channel. `sequence` is that of its last put, 0 before the first;
    it is never forgotten, also when the message is."""

    id: int
    fence: int
    sequence: int


class SavedCursor(msgspec.Struct, frozen=True):
    """Where a durable subscription stands: everything up to `floor` is done, `state` is the
    engine's own record of the rest."""

    hub: str
    channel: str
    owner: str
    name: str
    floor: int
    state: bytes


class TopicStore(MessageHistory, Protocol):
    """Producers and cursors: the state of exactly-once delivery besides the messages."""

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
        """The producer as it stands on disk, made if it is new. `take_over` raises its fence.
        Raises `StaleOwner`, and `QuotaExceeded` if it is new and the principal has `at_most`
        producers of the channel already."""

    async def read_producer(
        self, hub: str, channel: str, principal: str, producer: str
    ) -> ProducerRecord | None:
        """The producer as it stands on disk, if it ever was opened."""

    async def read_put(
        self, producer_id: int, sequence: int, hub: str, channel: str
    ) -> Message | None:
        """The message that a producer put under this sequence; None: never, or it was deleted."""

    async def save_cursor(self, cursor: SavedCursor, partition: int, term: int) -> None:
        """Create or replace. Raises `StaleOwner`."""

    async def delete_cursor(
        self, hub: str, channel: str, owner: str, name: str, partition: int, term: int
    ) -> bool:
        """Whether it was there. Raises `StaleOwner`."""

    async def read_cursors(
        self,
        hub: str,
        channel: str | None = None,
        owner: str | None = None,
        after: tuple[str, str, str] | None = None,
        limit: int | None = None,
        text: str = "",
    ) -> list[SavedCursor]:
        """Of one channel or all, of one owner or all; ordered by channel, owner, name, those behind
        `after`. With `text`: where one of the three holds it."""

    async def count_cursors(
        self, hub: str, channel: str | None = None, owner: str | None = None, text: str = ""
    ) -> int:
        """How many `read_cursors` finds in all."""

    async def read_cursor_page(
        self, after: tuple[str, str, str, str] | None, limit: int
    ) -> list[tuple[SavedCursor, ChannelHead | None]]:
        """Cursors of all hubs with their channels' heads, ordered by hub, channel, owner, name,
        those behind `after`."""
