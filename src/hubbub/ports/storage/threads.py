"""The index of conversations: the threads of a channel, and the messages of a thread."""

from __future__ import annotations

from typing import Protocol

import msgspec

from hubbub.domain.threads import Thread, ThreadsQuery
from hubbub.ports.storage.messages import ChannelHead, StoredPage


class StoredThreads(msgspec.Struct, frozen=True):
    """Threads in ascending order of their first serials, with the head at the time of reading.
    Bounded in bytes like a `StoredPage`."""

    threads: tuple[Thread, ...]
    more: bool
    head: ChannelHead | None


class ThreadStore(Protocol):
    """The index is updated in the transactions that append and delete messages. A channel written
    by a version without the index has none until `index_threads` has built it; later appends keep
    it current."""

    async def threads_indexed(self, hub: str, channel: str) -> bool:
        """Whether the index covers every message of the channel."""

    async def index_threads(self, hub: str, channel: str, partition: int, term: int) -> None:
        """Builds the index up to the channel's head, in several transactions. Raises `StaleOwner`;
        earlier transactions stay committed."""

    async def read_threads(self, query: ThreadsQuery) -> StoredThreads:
        """A page of the channel's threads. A thread exists while one of its messages does; it has a
        status while the newest message that sets one exists."""

    async def read_conversation(
        self, hub: str, channel: str, conversation: str, after: int, limit: int
    ) -> StoredPage:
        """The oldest messages of a conversation with a greater serial."""

    async def read_conversation_before(
        self, hub: str, channel: str, conversation: str, before: int | None, limit: int
    ) -> StoredPage:
        """The newest messages of a conversation with a smaller serial (None: of all)."""
