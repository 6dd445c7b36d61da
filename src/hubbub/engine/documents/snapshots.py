"""Snapshots of documents: saved beside the changes, which never wait for them."""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import Mapping

from hubbub.domain.documents.changes import DocumentState
from hubbub.domain.errors import HubbubError
from hubbub.engine.channels.channel import Channel
from hubbub.engine.channels.stored_bytes import StoredBytes
from hubbub.engine.documents.state import ChannelDocument
from hubbub.ports.storage.documents import DocumentStore
from hubbub.tasks import TaskSet

logger = logging.getLogger(__name__)

CHANGES = 100
"""After so many changes, a document gets a snapshot ..."""
LEAST_BYTES = 64 * 1024
"""... or when its changes outweigh it, and this."""


class Snapshots:
    """Of all channels of one owner."""

    def __init__(
        self, store: DocumentStore, terms: Mapping[int, int], stored_bytes: StoredBytes
    ) -> None:
        self._store = store
        self._terms = terms
        self._stored_bytes = stored_bytes
        self._tasks = TaskSet()

    async def settle(self) -> None:
        await self._tasks.settle()

    async def settle_so_far(self) -> None:
        await self._tasks.settle_so_far()

    def save_if_due(self, channel: Channel) -> None:
        """After an append; what is in memory is on disk."""
        state = channel.document
        if state is None or state.saving:
            return
        outweighed = state.bytes_since > max(LEAST_BYTES, state.document.size)
        if state.changes_since >= CHANGES or outweighed:
            self._start(channel, state)

    def save_now(self, channel: Channel) -> None:
        """The channel is about to be let go: whoever opens it again has less to read."""
        state = channel.document
        if state is not None and state.changes_since and not state.saving:
            self._start(channel, state)

    def _start(self, channel: Channel, state: ChannelDocument) -> None:
        """What is to be saved is taken now: the document goes on changing."""
        state.saving = True
        counted = state.changes_since, state.bytes_since
        state.changes_since = state.bytes_since = 0
        self._tasks.start(self._save(channel, state, state.state(), state.text(), counted))

    async def _save(
        self,
        channel: Channel,
        state: ChannelDocument,
        taken: DocumentState,
        text: bytes,
        counted: tuple[int, int],
    ) -> None:
        try:
            content = await asyncio.to_thread(zlib.compress, text, 1)
            saved = await self._store.save_snapshot(
                channel.hub,
                channel.name,
                taken.epoch,
                taken.version,
                taken.timestamp,
                content,
                channel.rules.max_document_changes,
                channel.partition,
                self._terms.get(channel.partition, 0),
            )
        except HubbubError as error:
            state.changes_since += counted[0]
            state.bytes_since += counted[1]
            logger.info("no snapshot of %r was saved: %s", channel.name, error.message)
        else:
            if saved is not None:
                self._stored_bytes.add(channel.hub, saved.added_bytes)
        finally:
            state.saving = False
