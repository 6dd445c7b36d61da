"""The document of a channel as one node follows it: every update once and in order.

Updates from the owner may be lost, doubled or late. What was missed is fetched; where the owner
cannot tell it any more, subscribers hear where the document stands, and read it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from hubbub.domain.documents.changes import (
    CATCH_UP_BYTES,
    DocumentQuery,
    DocumentState,
    DocumentUpdate,
)
from hubbub.domain.documents.text import JsonList
from hubbub.domain.errors import HubbubError
from hubbub.domain.notices import DocumentInfo, DocumentUpdated, Notice
from hubbub.ports.bus import Bus, DocumentChanged

_UPDATE_BYTES = 64
"""What an update takes without its operations, and counts at least."""


class DocumentFeed:
    """`state` is what subscribers were told last."""

    __slots__ = (
        "_behind",
        "_bus",
        "_catching_up",
        "_channel",
        "_hub",
        "_joining",
        "_recent",
        "_recent_bytes",
        "_say",
        "_used",
        "state",
    )

    def __init__(
        self,
        hub: str,
        channel: str,
        bus: Bus,
        say: Callable[[Notice], None],
        used: Callable[[], bool],
        joining: Callable[[], bool],
    ) -> None:
        """`used`: whether there is anyone to tell; `joining`: whether there will be soon."""
        self._hub = hub
        self._channel = channel
        self._bus = bus
        self._say = say
        self._used = used
        self._joining = joining
        self._recent: list[DocumentUpdate] = []
        """What was passed on while somebody is about to subscribe, as much as who catches up is
        told at most."""
        self._recent_bytes = 0
        self.state = DocumentState("", 0, 0, 2)
        self._behind: DocumentState | None = None
        """Where the owner was heard to be, which the feed has not reached."""
        self._catching_up: asyncio.Task[None] | None = None

    def begin(self, state: DocumentState) -> None:
        """As the owner answered; an update may have overtaken the answer."""
        if state.epoch != self.state.epoch or state.version > self.state.version:
            self.state = state

    def receive_early(self, event: DocumentChanged) -> None:
        """While the owner's answer is on its way."""
        self.state = _state_after(event.update, event.size)

    def receive(self, event: DocumentChanged) -> None:
        update = event.update
        if self._follows(update):
            self._pass_on(update, event.size)
        else:
            self.compare(_state_after(update, event.size))

    def compare(self, state: DocumentState) -> None:
        """The owner stands here: behind that, or in another epoch, something was missed."""
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
        return DocumentInfo(self._channel, state.epoch, state.version, state.timestamp, state.size)

    def _follows(self, update: DocumentUpdate) -> bool:
        if update.version != self.state.version + 1:
            return False
        # A document that was never written gets its epoch with its first change.
        return update.epoch == self.state.epoch or update.version == 1

    def _pass_on(self, update: DocumentUpdate, size: int) -> None:
        self.state = _state_after(update, size)
        self._say(updated(self._channel, update))
        self._recent_bytes += _UPDATE_BYTES + len(update.ops)
        if self._joining() and self._recent_bytes <= CATCH_UP_BYTES:
            self._recent.append(update)
        else:
            self._recent, self._recent_bytes = [], 0

    def up_to_now(
        self, since: int, since_epoch: str | None, updates: Sequence[DocumentUpdate]
    ) -> list[DocumentUpdate]:
        """What leads from a version that a subscriber has to `state`: of what the owner answered,
        and of what was passed on since it did. Nothing where something between is missing."""
        epoch, version = self.state.epoch, self.state.version
        if since_epoch and since_epoch != epoch:
            return []
        known = {each.version: each for each in (*updates, *self._recent) if each.epoch == epoch}
        wanted = range(since + 1, version + 1)
        return [known[each] for each in wanted] if known.keys() >= set(wanted) else []

    async def _catch_up(self) -> None:
        try:
            while self._behind is not None and self._used():
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
        """Until the owner has no more."""
        while True:
            state = self.state
            found = await self._bus.document(
                DocumentQuery(
                    self._hub,
                    self._channel,
                    since=state.version,
                    epoch=state.epoch,
                    least_bytes=CATCH_UP_BYTES,
                )
            )
            if found.document is not None:
                if found.state != self.state and self._is_behind(found.state):
                    self.state = found.state
                    self._say(self.info())
                return
            for update in found.updates:
                if self._follows(update):
                    self._pass_on(update, found.state.size)
            if not found.more:
                return


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
