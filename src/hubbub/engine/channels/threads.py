"""History at the owner of a channel: pages of its messages, of its conversations, and of the
messages of one conversation."""

from __future__ import annotations

from typing import Protocol

from hubbub.domain.errors import StaleOwner
from hubbub.domain.history import HistoryQuery
from hubbub.domain.notices import HistoryPage
from hubbub.domain.threads import ThreadsFound, ThreadsQuery, no_threads
from hubbub.engine.channels.channel import Channel
from hubbub.engine.channels.history import page_from_store, page_of_stored
from hubbub.engine.channels.rooms import OwnerRoom
from hubbub.engine.channels.terms import Terms
from hubbub.ports.storage.messages import MessageHistory
from hubbub.ports.storage.threads import ThreadStore


class HistoryStore(MessageHistory, ThreadStore, Protocol):
    """The messages of channels, and the index of their conversations."""


class HistoryReader(OwnerRoom):
    """Conversations are read from the store's index. The first question about a channel that was
    written by a Hubbub without the index waits until the channel is indexed."""

    def __init__(self, store: HistoryStore, terms: Terms) -> None:
        self._store = store
        self._terms = terms
        self.channel_requests = {HistoryQuery: self._history, ThreadsQuery: self._threads}

    async def _threads(self, channel: Channel, query: ThreadsQuery) -> ThreadsFound:
        await self._ensure_index(channel)
        found = await self._store.read_threads(query)
        return ThreadsFound(
            found.threads, found.more, channel.epoch if found.head is None else found.head.epoch
        )

    async def _history(self, channel: Channel, query: HistoryQuery) -> HistoryPage:
        if query.conversation is not None:
            return await self._messages(channel, query)
        if channel.rules.store:
            return await page_from_store(self._store, query, channel.epoch)
        return channel.page_from_live_history(query)

    async def _messages(self, channel: Channel, query: HistoryQuery) -> HistoryPage:
        await self._ensure_index(channel)
        hub, name, limit = query.hub, query.channel, query.limit
        assert query.conversation is not None
        if query.after is not None:
            page = await self._store.read_conversation(
                hub, name, query.conversation, query.after, limit
            )
        else:
            page = await self._store.read_conversation_before(
                hub, name, query.conversation, query.before, limit
            )
        return page_of_stored(query, channel.epoch, page)

    async def _ensure_index(self, channel: Channel) -> None:
        """Raises `NotFound` if the channel stores no messages, and `StaleOwner`."""
        if not channel.rules.store:
            raise no_threads(channel.name)
        if not await self._store.threads_indexed(channel.hub, channel.name):
            term = self._terms.get(channel.partition)
            if term is None:
                raise StaleOwner(f"another node owns partition {channel.partition} by now")
            await self._store.index_threads(channel.hub, channel.name, channel.partition, term)
