"""The journal, as the engine writes to it: events for later analysis.

Contract for all methods: they are called from the event loop, cost little, never wait and never
raise. What the disk cannot take is dropped, counted, and told by a `journal.lost` event; the hub
goes on. Only the messages that are stored are never missing: they are read from the store again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from hubbub.domain.journal import JournalEvent, PayloadRule
from hubbub.domain.messages import Message


class Journal(Protocol):
    enabled: bool
    """False: nothing is kept, so that nothing has to be told."""

    def record(self, event: JournalEvent) -> None:
        """Keep an event of any kind. The journal fills in the node; the event is its own from then
        on."""

    def published(self, message: Message, epoch: str, rule: PayloadRule) -> None:
        """The channel's owner took a message in, under the channel's rule. A stored one must be on
        disk, and those of a channel come in the order of their serials."""

    def add_source(self, flush: Callable[[bool], None]) -> None:
        """Call this at every tick, so that what was collected meanwhile is recorded: in portions,
        or (True) all of it now."""


class NoJournal:
    """For a hub that keeps none."""

    enabled = False

    def record(self, event: JournalEvent) -> None:
        pass

    def published(self, message: Message, epoch: str, rule: PayloadRule) -> None:
        pass

    def add_source(self, flush: Callable[[bool], None]) -> None:
        pass


NO_JOURNAL = NoJournal()
