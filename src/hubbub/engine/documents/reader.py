"""Reads documents at the owner of their channels: loads them from the store, and serves queries.

A version is visible only once it is on disk: queries wait for the append in progress. Large
documents are built and encoded one at a time per hub."""

from __future__ import annotations

import asyncio
import logging
import zlib

from hubbub.domain.documents.changes import (
    PAGE,
    DocumentAnswer,
    DocumentQuery,
    DocumentState,
    DocumentUpdate,
)
from hubbub.domain.documents.document import JsonDocument
from hubbub.domain.documents.operations import stored_patch_steps
from hubbub.domain.documents.paths import parse_path
from hubbub.domain.documents.steps import Steps, begun
from hubbub.domain.errors import BadRequest, HistoryGone, Internal
from hubbub.domain.rules import Rules
from hubbub.engine.channels.channel import Channel
from hubbub.engine.documents.state import ChannelDocument
from hubbub.engine.large_work import CHANGE_WEIGHT, SMALL_BYTES, HubLocks, in_turns, leave_loop
from hubbub.ports import randomness
from hubbub.ports.storage.documents import (
    ChangesPage,
    DocumentHead,
    DocumentStore,
    StoredChange,
    StoredDocument,
)

logger = logging.getLogger(__name__)


class DocumentReader:
    """The documents of one owner's channels, and their history."""

    def __init__(self, store: DocumentStore) -> None:
        self._store = store
        self._reading = HubLocks()
        """Locks for reads of documents that may be large."""

    async def load(self, channel: Channel) -> None:
        """Loads the newest readable snapshot and all later changes. Without one, the document can
        only be deleted."""
        found = await self._store.read_document(channel.hub, channel.name)
        if found is None:
            known = channel.state_of(ChannelDocument)
            unwritten = known is not None and known.version == 0
            epoch = known.epoch if known is not None and unwritten else randomness.token_hex(4)
            channel.put_state(ChannelDocument(epoch))
            return
        state = ChannelDocument(found.head.epoch)
        async with self._reading.of(channel.hub):
            try:
                found, state.document = await self._built(channel.hub, channel.name, found)
            except Internal as error:
                state.damage = error
        state.version, state.at = found.head.version, found.head.updated_at
        state.changes_since = len(found.changes)
        state.bytes_since = sum(len(each.ops) for each in found.changes)
        state.stored = state.state()
        channel.put_state(state)

    async def _built(
        self, hub: str, channel: str, found: StoredDocument
    ) -> tuple[StoredDocument, JsonDocument]:
        """Builds the document, from an older snapshot if the newest is damaged. Raises
        `Internal`."""
        version = found.version
        while True:
            try:
                return found, await built_document(found)
            except Exception as error:  # noqa: BLE001 - whatever is wrong with it
                logger.error(
                    "the document %r of hub %r cannot be loaded from its snapshot at version "
                    "%d: %r",
                    channel,
                    hub,
                    found.snapshot_version,
                    error,
                )
            older = None
            if found.snapshot:
                older = await self._store.read_document(
                    hub, channel, version, before=found.snapshot_version
                )
            if older is None or older.head.epoch != found.head.epoch:
                raise Internal(
                    f"the document {channel!r} cannot be read: what is stored of it is damaged; "
                    "delete it, or restore the hub from a backup"
                )
            found = older

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
        answered: asyncio.Future[tuple[DocumentState, Steps[bytes]]]
        answered = asyncio.get_running_loop().create_future()

        def read() -> None:
            """Runs between two appends, so that the result is on disk."""
            if answered.done():
                return
            try:
                state = document_of(channel)
                if state.damage is not None:
                    raise state.damage
                text = state.document.json_steps(path) if path else state.text_steps()
                answered.set_result((state.state(), begun(text)))
            except Exception as error:  # noqa: BLE001 - told to whoever waits
                answered.set_exception(error)

        channel.when_stored(read, answered)
        state, text = await answered
        return DocumentAnswer(state, await in_turns(text))

    async def _updates(self, query: DocumentQuery) -> DocumentAnswer | None:
        """Updates from the caller's version to the current one; None: the whole document is
        smaller, or updates in between no longer exist."""
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
        since = query.since or 0
        page = await self._store.read_document_changes(
            query.hub, query.channel, since, query.before, query.limit
        )
        head = page.head
        if head is None:
            return DocumentAnswer(document_of(channel).stored, recovered=since == 0)
        older_follow = query.before is not None and page.more
        recovered = older_follow or head.first - 1 <= since <= head.version
        return _updates_of(page, head, recovered)

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
        found, document = await self._built(query.hub, query.channel, found)
        when = found.changes[-1].at if found.changes else found.snapshot_at
        state = DocumentState(found.head.epoch, found.version, when, document.size)
        text = await in_turns(document.json_steps(parse_path(query.path)))
        await leave_loop(len(text))
        return DocumentAnswer(state, text)


def document_of(channel: Channel) -> ChannelDocument:
    """The document of a document channel that was read."""
    state = channel.state_of(ChannelDocument)
    assert state is not None
    return state


def outlived(updated_at: int, rules: Rules, now: int) -> bool:
    """Whether the rules delete a document that was last changed at `updated_at`; both times in
    milliseconds since 1970."""
    ttl = rules.document_ttl_seconds
    return bool(ttl) and updated_at + ttl * 1000 <= now


def update_of(epoch: str, change: StoredChange) -> DocumentUpdate:
    return DocumentUpdate(
        epoch, change.version, change.at, change.author, change.change_id, change.ops
    )


def _updates_of(page: ChangesPage, head: DocumentHead, recovered: bool = True) -> DocumentAnswer:
    state = DocumentState(head.epoch, head.version, head.updated_at, head.size)
    updates = tuple(update_of(head.epoch, each) for each in page.changes)
    return DocumentAnswer(state, None, updates, page.more, recovered)


async def built_document(found: StoredDocument) -> JsonDocument:
    """Builds a document in slices. Raises any error that shows that it is damaged."""
    version = found.snapshot_version
    if version and not found.snapshot:
        raise ValueError("there is no such snapshot")
    text = zlib.decompress(found.snapshot) if found.snapshot else b"{}"
    document = await in_turns(JsonDocument.stored_steps(text))
    await leave_loop(len(text))
    worked = 0
    for change in found.changes:
        version += 1
        if change.version != version:
            raise ValueError(f"version {version} is missing")
        operations = await in_turns(stored_patch_steps(change.ops))
        await in_turns(document.follow_steps(operations))
        worked += CHANGE_WEIGHT * len(change.ops)
        if worked > SMALL_BYTES:
            await leave_loop(worked)
            worked = 0
    if version != found.version:
        raise ValueError(f"version {version + 1} is missing")
    return document
