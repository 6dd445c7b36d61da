"""The document of a channel as one node follows it: every update once and in order.

Updates from the owner may be lost, duplicated or late. Missed updates are fetched; if they no
longer exist, subscribers are told the document's current version, and read it again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hubbub.domain.asking import FeedEvent
from hubbub.domain.documents.changes import (
    CATCH_UP_BYTES,
    DocumentAdvanced,
    DocumentAnswer,
    DocumentQuery,
    DocumentState,
    DocumentUpdate,
)
from hubbub.domain.documents.text import JsonList
from hubbub.domain.errors import HubbubError
from hubbub.domain.notices import DocumentInfo, DocumentUpdated
from hubbub.domain.requests import SubscribeItem
from hubbub.engine.delivery.feed_part import Allowance, FeedPart, FollowedChannel
from hubbub.ports.bus import Attachment, Bus, HeadAnnounced

_UPDATE_BYTES = 64
"""Size of an update without its operations, its minimum."""


class DocumentFeed(FeedPart):
    """`state` is the state last sent to subscribers."""

    events = (DocumentAdvanced,)

    __slots__ = (
        "_behind",
        "_catching_up",
        "_recent",
        "_recent_bytes",
        "state",
    )

    def __init__(self, feed: FollowedChannel, bus: Bus) -> None:
        super().__init__(feed, bus)
        self._recent: list[DocumentUpdate] = []
        """Updates delivered while a subscription is in preparation, up to the maximum size of a
        catch-up."""
        self._recent_bytes = 0
        self.state = DocumentState("", 0, 0, 2)
        self._behind: DocumentState | None = None
        """The owner's last known state, if the feed has not reached it."""
        self._catching_up: asyncio.Task[None] | None = None

    def begin(self, attachment: Attachment) -> None:
        state = attachment.document
        if state is not None and (
            state.epoch != self.state.epoch or state.version > self.state.version
        ):
            self.state = state

    def renewed(self, attachment: Attachment) -> None:
        if attachment.document is not None:
            self._compare(attachment.document)

    def receive_head(self, head: HeadAnnounced) -> None:
        if head.document is not None:
            self._compare(head.document)

    def receive_early(self, event: FeedEvent) -> None:
        assert isinstance(event, DocumentAdvanced)
        self.state = _state_after(event.update, event.size)

    def receive(self, event: FeedEvent) -> None:
        assert isinstance(event, DocumentAdvanced)
        update = event.update
        if self._follows(update):
            self._pass_on(update, event.size)
        else:
            self._compare(_state_after(update, event.size))

    def _compare(self, state: DocumentState) -> None:
        """Compares the feed with the owner's state: a later version or another epoch means missed
        updates."""
        if state.epoch == self.state.epoch:
            if state.version <= self.state.version:
                return
        elif not state.version and not self.state.version:
            self.state = state  # nothing was ever written in either
            return
        self._behind = state
        if self._catching_up is None:
            self._catching_up = asyncio.get_running_loop().create_task(self._catch_up())

    def info(self) -> DocumentInfo:
        state = self.state
        channel = self._feed.channel
        return DocumentInfo(channel, state.epoch, state.version, state.timestamp, state.size)

    def _follows(self, update: DocumentUpdate) -> bool:
        if update.version != self.state.version + 1:
            return False
        # A document that was never written gets its epoch with its first change.
        return update.epoch == self.state.epoch or update.version == 1

    def _pass_on(self, update: DocumentUpdate, size: int) -> None:
        self.state = _state_after(update, size)
        self._feed.say(updated(self._feed.channel, update))
        self._recent_bytes += _UPDATE_BYTES + len(update.ops)
        if self._feed.has_users and self._recent_bytes <= CATCH_UP_BYTES:
            self._recent.append(update)
        else:
            self._recent, self._recent_bytes = [], 0

    async def read_missed(
        self, wanted: SubscribeItem, allowance: Allowance
    ) -> tuple[DocumentUpdate, ...]:
        """Updates since the session's version; none if the session named no version, if the whole
        document is smaller, or if the budget is used up: in these cases the session reads the
        document."""
        if wanted.document_version is None:
            return ()
        async with allowance.reading:
            updates = await self._updates_since(wanted.document_version, wanted.document_epoch)
            return updates if allowance.take(sum(len(update.ops) for update in updates)) else ()

    async def _updates_since(self, since: int, epoch: str | None) -> tuple[DocumentUpdate, ...]:
        found, more = list[DocumentUpdate](), True
        while more:
            answer = await self._ask(since, epoch or None)
            found += answer.updates
            more = answer.more and bool(answer.updates)
            since = found[-1].version if found else since
        return tuple(found)

    def catch_up(
        self, wanted: SubscribeItem, missed: Sequence[DocumentUpdate]
    ) -> list[DocumentUpdated]:
        """Combines the owner's response with the updates delivered since. Returns nothing if
        updates in between are missing."""
        since, since_epoch = wanted.document_version, wanted.document_epoch
        epoch, version = self.state.epoch, self.state.version
        if since is None or (since_epoch and since_epoch != epoch):
            return []
        known = {each.version: each for each in (*missed, *self._recent) if each.epoch == epoch}
        needed = range(since + 1, version + 1)
        if not known.keys() >= set(needed):
            return []
        return [updated(self._feed.channel, known[each]) for each in needed]

    @property
    def version(self) -> tuple[int, str]:
        return self.state.version, self.state.epoch

    async def _catch_up(self) -> None:
        try:
            while self._behind is not None and self._feed.is_used:
                target, self._behind = self._behind, None
                if self._is_behind(target):
                    await self._fetch()
        except HubbubError:
            pass  # the next announcement of the owner tries again
        finally:
            self._catching_up = None

    def _is_behind(self, target: DocumentState) -> bool:
        same = target.epoch == self.state.epoch
        return not same or target.version > self.state.version

    async def _fetch(self) -> None:
        """Fetches until the owner has no more updates."""
        while True:
            state = self.state
            found = await self._ask(state.version, state.epoch)
            if found.document is not None:
                if found.state != self.state and self._is_behind(found.state):
                    self.state = found.state
                    self._feed.say(self.info())
                return
            for update in found.updates:
                if self._follows(update):
                    self._pass_on(update, found.state.size)
            if not found.more:
                return

    async def _ask(self, since: int, epoch: str | None) -> DocumentAnswer:
        hub, channel = self._feed.hub_name, self._feed.channel
        return await self._bus.ask(
            DocumentQuery(hub, channel, since=since, epoch=epoch, least_bytes=CATCH_UP_BYTES)
        )


def updated(channel: str, update: DocumentUpdate) -> DocumentUpdated:
    return DocumentUpdated(
        channel,
        update.epoch,
        update.version,
        update.timestamp,
        update.change_id,
        JsonList(update.ops),
        update.author,
    )


def _state_after(update: DocumentUpdate, size: int) -> DocumentState:
    return DocumentState(update.epoch, update.version, update.timestamp, size)
