"""The full-text index: the words of stored messages, and which messages hold a phrase."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from hubbub.domain.search import Phrases
from hubbub.ports.storage.messages import StoredPage


class IndexedChannel(msgspec.Struct, frozen=True):
    """A channel whose index was begun: it covers the messages up to the serial `indexed`. `last_at`
    is the time of the newest message (ms since 1970)."""

    id: int
    name: str
    first: int
    head: int
    indexed: int
    last_at: int

    @property
    def complete(self) -> bool:
        return self.indexed >= self.head


class SerialRange(msgspec.Struct, frozen=True, array_like=True):
    """Serials of a channel, both ends included."""

    channel_id: int
    low: int
    high: int


class TextHit(msgspec.Struct, frozen=True, array_like=True):
    """A message that holds all phrases. `at` never decreases within a channel: the latest time of
    publication (ms since 1970) up to this message. `score` is 0 unless it was asked for."""

    channel_id: int
    serial: int
    at: int
    score: float


class FoundTexts(msgspec.Struct, frozen=True, array_like=True):
    """`rest`: what is still to be searched, each channel's newer spans before its older ones."""

    hits: tuple[TextHit, ...]
    rest: tuple[SerialRange, ...]


class SearchStore(Protocol):
    """An append marked `search` is indexed in its own transaction, provided that the index covers
    all messages before it. Deletions and erasures of messages delete their words in the same
    transaction. Words count for the hub's quota."""

    async def read_indexed_channels(self, hub: str, begin: str, limit: int) -> list[IndexedChannel]:
        """Channels in the order of their names, from the name `begin` on."""

    async def index_texts(self, hub: str, channel: str, partition: int, term: int) -> None:
        """Completes the channel's index, in several transactions; begins one if there is none.
        Raises `StaleOwner` and `QuotaExceeded`; earlier transactions stay committed."""

    async def drop_texts(self, hub: str, channel: str, partition: int, term: int) -> None:
        """Deletes the channel's index, in several transactions. Raises `StaleOwner`."""

    async def find_texts(
        self, hub: str, spans: Sequence[SerialRange], phrases: Phrases, limit: int, ranked: bool
    ) -> FoundTexts:
        """Searches the beginning of the spans, as far as a small, fixed number of messages and
        channels: the newest `limit` hits of each part that it searches. The caller has made sure
        that the channels are those of the hub."""

    async def first_serials_at(
        self, hub: str, questions: Sequence[tuple[IndexedChannel, int]]
    ) -> list[int]:
        """For each channel and time, the first serial whose `at` is no earlier, or head + 1."""

    async def read_messages(self, hub: str, channel: str, serials: Sequence[int]) -> StoredPage:
        """Returns the existing ones of these messages. If they do not fit into a page, the page has
        `more`."""
