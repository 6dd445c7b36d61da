"""The index of conversations: which threads a channel has, and the messages of one."""

from __future__ import annotations

from typing import Protocol

import msgspec

from hubbub.domain.threads import Thread, ThreadsQuery
from hubbub.ports.storage.messages import ChannelHead, StoredPage


class StoredThreads(msgspec.Struct, frozen=True):
    """Threads in rising order of their first serials, with the head they were read against. Bounded
    in bytes like a `StoredPage`."""

    threads: tuple[Thread, ...]
    more: bool
    head: ChannelHead | None


class ThreadStore(Protocol):
    """The index is kept up in the transactions that append and delete messages. A channel that
    was written by a Hubbub without the index has none until `index_threads` has made it; from then
    on appends keep it up."""

    async def threads_indexed(self, hub: str, channel: str) -> bool:
        """Whether the index covers every message of the channel."""

    async def index_threads(self, hub: str, channel: str, partition: int, term: int) -> None:
        """Bring the index up to the channel's head, in several transactions. Raises
        `StaleOwner`; what was indexed before stays so."""

    async def read_threads(self, query: ThreadsQuery) -> StoredThreads:
        """A page of the channel's threads. A thread is there as long as one of its messages is;
        it has a status as long as the newest message that sets one is there."""

    async def read_conversation(
        self, hub: str, channel: str, conversation: str, after: int, limit: int
    ) -> StoredPage:
        """The oldest messages of a conversation with a greater serial."""

    async def read_conversation_before(
        self, hub: str, channel: str, conversation: str, before: int | None, limit: int
    ) -> StoredPage:
        """The newest messages of a conversation with a smaller serial (None: of all)."""
