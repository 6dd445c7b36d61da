"""Documents at the owner of their channels."""

from __future__ import annotations

import asyncio
from functools import partial

from hubbub.domain.documents.changes import DocumentAnswer, DocumentQuery
from hubbub.domain.documents.requests import ApplyChange, FindChange
from hubbub.domain.documents.values import DocumentLimits
from hubbub.domain.errors import VersionMismatch
from hubbub.domain.names import is_document
from hubbub.domain.topics import FoundPut
from hubbub.engine.channels.channel import Channel
from hubbub.engine.channels.parts import OwnerParts
from hubbub.engine.channels.rooms import OwnerRoom
from hubbub.engine.documents.journal import DocumentEvents
from hubbub.engine.documents.judge import DocumentJudge
from hubbub.engine.documents.reader import DocumentReader
from hubbub.engine.documents.snapshots import Snapshots
from hubbub.ports.bus import PublishOutcome
from hubbub.ports.journal import Journal


class DocumentOwner(OwnerRoom):
    """The documents in the channels of one owner."""

    def __init__(
        self,
        parts: OwnerParts,
        limits: DocumentLimits,
        journal: Journal,
    ) -> None:
        store = parts.store
        self._terms = parts.terms
        self._channels = parts.channels
        self._producers = parts.producers
        self._publish = parts.bus.publish
        self._reader = DocumentReader(store)
        self._judge = DocumentJudge(
            store, parts.clock, limits, parts.announcements, DocumentEvents(journal)
        )
        self._snapshots = Snapshots(store, parts.terms, parts.stored_bytes)
        self.channel_requests = {DocumentQuery: self._answer}
        self.owner_requests = {FindChange: self._find}
        self.ordered_requests = {ApplyChange: self._judge}

    def keeps(self, channel: str) -> bool:
        return is_document(channel)

    async def load(self, channel: Channel) -> None:
        await self._reader.load(channel)

    async def attaching(self, channel: Channel) -> None:
        if is_document(channel.name):
            await self._expire(channel)

    async def _answer(self, channel: Channel, query: DocumentQuery) -> DocumentAnswer:
        await self._expire(channel)
        return await self._reader.answer(channel, query)

    async def _expire(self, channel: Channel) -> None:
        """Returns when a document that has outlived its rules is deleted. Raises the store's
        errors."""
        while (expiry := self._judge.expiry(channel)) is not None:
            told: asyncio.Future[PublishOutcome] = asyncio.get_running_loop().create_future()
            self._publish(expiry, partial(_conclude, told))
            error = (await told).error
            if error is not None and not isinstance(error, VersionMismatch):
                raise error

    def appended(self, channel: Channel) -> None:
        self._snapshots.save_if_due(channel)

    def closed(self, channel: Channel) -> None:
        if channel.partition in self._terms:
            self._snapshots.save_now(channel)

    async def _find(self, request: FindChange) -> FoundPut | None:
        change = ApplyChange(request.message, request.options)
        original = partial(self._judge.original, request=change)
        return await self._producers.find(change, original)

    async def hub_suspended(self, hub: str) -> None:
        await self._snapshots.settle_so_far()

    async def settle(self) -> None:
        for channel in self._channels.values():
            self._snapshots.save_now(channel)
        await self.settle_snapshots()

    async def settle_snapshots(self) -> None:
        """Wait until no snapshot is under way."""
        await self._snapshots.settle()


def _conclude(told: asyncio.Future[PublishOutcome], outcome: PublishOutcome) -> None:
    if not told.done():  # else the caller is gone
        told.set_result(outcome)
