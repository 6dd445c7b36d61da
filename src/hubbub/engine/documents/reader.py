"""Documents at the owner of their channels, as they are read: loaded from the store, and asked for.

Nobody sees a version before it is on disk: questions wait for the end of the append under way.
Large documents are built and encoded one after the other in each hub.
"""

from __future__ import annotations

import asyncio
import secrets
import zlib

from hubbub.domain.documents.changes import (
    PAGE,
    DocumentAnswer,
    DocumentQuery,
    DocumentState,
    DocumentUpdate,
)
from hubbub.domain.documents.document import Document
from hubbub.domain.documents.operations import stored_patch
from hubbub.domain.documents.paths import parse_path
from hubbub.domain.errors import BadRequest, HistoryGone, HubbubError
from hubbub.engine.channels.channel import Channel
from hubbub.engine.documents.state import ChannelDocument
from hubbub.engine.large_work import SMALL_BYTES, HubLocks, leave_loop
from hubbub.ports.storage.documents import (
    ChangesPage,
    DocumentChange,
    DocumentHead,
    DocumentStore,
    StoredDocument,
)

CHANGE_WEIGHT = 4
"""A byte of a change takes as long as so many bytes of a document that is read."""


class DocumentReader:
    """Serves all channels of one owner."""

    def __init__(self, store: DocumentStore) -> None:
        self._store = store
        self._reading = HubLocks()
        """Held by who reads a document that may be large."""

    async def load(self, channel: Channel) -> None:
        """The newest snapshot, and every change since."""
        found = await self._store.read_document(channel.hub, channel.name)
        if found is None:
            known = channel.document
            unwritten = known is not None and known.version == 0
            epoch = known.epoch if known is not None and unwritten else secrets.token_hex(4)
            channel.document = ChannelDocument(epoch)
            return
        state = ChannelDocument(found.head.epoch)
        async with self._reading.of(channel.hub):
            state.document = await built_document(found)
        state.version, state.at = found.head.version, found.head.updated_at
        state.changes_since = len(found.changes)
        state.bytes_since = sum(len(each.ops) for each in found.changes)
        state.stored = state.state()
        channel.document = state

    async def answer(self, channel: Channel, query: DocumentQuery) -> DocumentAnswer:
        """Raises `NotFound`, `InvalidPatch`, `BadRequest`, `HistoryGone`."""
        if query.limit:
            return await self._changes(channel, query)
        if query.at is not None or query.at_time is not None:
            async with self._reading.of(query.hub):
                return await self._of_then(query)
        if query.since is not None:
            found = await self._updates(query)
            if found is not None:
                return found
        if document_of(channel).document.size <= SMALL_BYTES:
            return await self._now(channel, query)
        async with self._reading.of(query.hub):
            answer = await self._now(channel, query)
            await leave_loop(len(answer.document or b""))
            return answer

    @staticmethod
    async def _now(channel: Channel, query: DocumentQuery) -> DocumentAnswer:
        path = parse_path(query.path)
        answered: asyncio.Future[DocumentAnswer] = asyncio.get_running_loop().create_future()

        def read() -> None:
            """Between two appends, so that what is read is on disk."""
            if answered.done():
                return
            try:
                state = document_of(channel)
                text = state.document.part_json(path) if path else state.text()
                answered.set_result(DocumentAnswer(state.state(), text))
            except HubbubError as error:
                answered.set_exception(error)

        channel.when_stored(read, answered)
        return await answered

    async def _updates(self, query: DocumentQuery) -> DocumentAnswer | None:
        """What leads from a version that the caller has to the present one; None: the document
        itself is shorter, or what lies between is gone."""
        assert query.since is not None
        page = await self._store.read_document_changes(
            query.hub, query.channel, query.since, None, PAGE
        )
        head = page.head
        if head is None or (query.epoch and query.epoch != head.epoch):
            return None
        if query.since > head.version or query.since < head.first - 1:
            return None
        if page.bytes_behind > max(head.size, query.least_bytes):
            return None
        return _updates_of(page, head)

    async def _changes(self, channel: Channel, query: DocumentQuery) -> DocumentAnswer:
        page = await self._store.read_document_changes(
            query.hub, query.channel, query.since or 0, query.before, query.limit
        )
        if page.head is None:
            return DocumentAnswer(document_of(channel).stored)
        return _updates_of(page, page.head)

    async def _of_then(self, query: DocumentQuery) -> DocumentAnswer:
        if query.at is not None and query.at_time is not None:
            raise BadRequest("give at most one of `at` and `atTime`")
        found = await self._store.read_document(query.hub, query.channel, query.at, query.at_time)
        if found is None or found.version > found.head.version:
            raise HistoryGone(f"the document {query.channel!r} was not there then")
        if query.epoch and query.epoch != found.head.epoch:
            raise HistoryGone(f"the document {query.channel!r} began anew since that epoch")
        if found.snapshot_version > found.version:
            raise HistoryGone(
                f"of the document {query.channel!r}, versions before "
                f"{max(found.head.first - 1, 0)} are not kept any more"
            )
        document = await built_document(found)
        when = found.changes[-1].at if found.changes else found.snapshot_at
        state = DocumentState(found.head.epoch, found.version, when, document.size)
        text = document.part_json(parse_path(query.path))
        await leave_loop(len(text))
        return DocumentAnswer(state, text)


def document_of(channel: Channel) -> ChannelDocument:
    """Of a document channel that was read."""
    assert channel.document is not None
    return channel.document


def update_of(epoch: str, change: DocumentChange) -> DocumentUpdate:
    return DocumentUpdate(
        epoch, change.version, change.at, change.author, change.change_id, change.ops
    )


def _updates_of(page: ChangesPage, head: DocumentHead) -> DocumentAnswer:
    state = DocumentState(head.epoch, head.version, head.updated_at, head.size)
    updates = tuple(update_of(head.epoch, each) for each in page.changes)
    return DocumentAnswer(state, None, updates, page.more)


async def built_document(found: StoredDocument) -> Document:
    """In steps, of which none takes longer than a snapshot or a change."""
    text = zlib.decompress(found.snapshot) if found.snapshot else b"{}"
    document = Document.stored(text)
    await leave_loop(len(text))
    worked = 0
    for change in found.changes:
        document.follow(stored_patch(change.ops))
        worked += CHANGE_WEIGHT * len(change.ops)
        if worked > SMALL_BYTES:
            await leave_loop(worked)
            worked = 0
    return document
