"""Snapshots of documents: saved beside the changes, which never wait for them."""

from __future__ import annotations

import asyncio
import logging
import zlib

from hubbub.domain.documents.changes import DocumentState
from hubbub.domain.documents.steps import Steps, begun
from hubbub.domain.errors import HubbubError
from hubbub.engine.channels.channel import Channel
from hubbub.engine.channels.stored_bytes import StoredBytes
from hubbub.engine.channels.terms import Terms
from hubbub.engine.documents.state import ChannelDocument
from hubbub.engine.large_work import in_turns
from hubbub.ports.storage.documents import DocumentStore
from hubbub.tasks import TaskSet

logger = logging.getLogger(__name__)

CHANGES = 100
"""A document gets a snapshot after this many changes ..."""
LEAST_BYTES = 64 * 1024
"""... or when its changes are larger than the document and than this ..."""
VISITS = 4 * 1024 * 1024
"""... or when its changes visit this many values, which every later read repeats."""


class Snapshots:
    """Snapshots for all channels of one owner."""

    def __init__(self, store: DocumentStore, terms: Terms, stored_bytes: StoredBytes) -> None:
        self._store = store
        self._terms = terms
        self._stored_bytes = stored_bytes
        self._tasks = TaskSet()

    async def settle(self) -> None:
        await self._tasks.settle()

    async def settle_so_far(self) -> None:
        await self._tasks.settle_so_far()

    def save_if_due(self, channel: Channel) -> None:
        """Called after an append, when the state in memory is on disk."""
        state = channel.state_of(ChannelDocument)
        if state is None or state.saving:
            return
        outweighed = state.bytes_since > max(LEAST_BYTES, state.document.size)
        if state.changes_since >= CHANGES or outweighed or state.visits_since > VISITS:
            self._start(channel, state)

    def save_now(self, channel: Channel) -> None:
        """Called before the channel is unloaded, so that the next owner has less to read."""
        state = channel.state_of(ChannelDocument)
        if state is not None and state.changes_since and not (state.saving or state.damage):
            self._start(channel, state)

    def _start(self, channel: Channel, state: ChannelDocument) -> None:
        """Copies the state to save now, since the document continues to change."""
        state.saving = True
        counted = state.changes_since, state.bytes_since
        state.changes_since = state.bytes_since = 0
        state.visits_before = state.document.visits
        text = state.text_steps()
        self._tasks.start(self._save(channel, state, state.state(), begun(text), counted))

    async def _save(
        self,
        channel: Channel,
        state: ChannelDocument,
        taken: DocumentState,
        text: Steps[bytes],
        counted: tuple[int, int],
    ) -> None:
        try:
            content = await asyncio.to_thread(zlib.compress, await in_turns(text), 1)
            saved = await self._store.save_snapshot(
                channel.hub,
                channel.name,
                taken.epoch,
                taken.version,
                taken.timestamp,
                content,
                channel.rules.max_document_changes,
                channel.partition,
                self._terms.of(channel),
            )
        except HubbubError as error:
            state.changes_since += counted[0]
            state.bytes_since += counted[1]
            logger.info("hub %s: no snapshot of %r was saved: %s", channel.hub, channel.name, error)
        else:
            if saved is not None:
                self._stored_bytes.add(channel.hub, saved.added_bytes)
        finally:
            state.saving = False
