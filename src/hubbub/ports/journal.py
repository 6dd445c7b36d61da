"""The engine's port to the journal: events for later analysis.

Contract of all methods: called from the event loop, cheap, never waiting, never raising. Events
that the disk cannot absorb are dropped, counted, and reported by a `journal.lost` event. Stored
messages are never missing: the journal reads them from the store again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from hubbub.domain.journal import JournalEvent, PayloadRule
from hubbub.domain.messages import Message


class Journal(Protocol):
    enabled: bool
    """False: no journal is kept, and events need not be created."""

    def record(self, event: JournalEvent) -> None:
        """Records an event of any kind. The journal sets the node and takes ownership of the
        event."""

    def published(self, message: Message, epoch: str, rule: PayloadRule) -> None:
        """Records a message that the channel's owner accepted, under the channel's rule. A stored
        message must be on disk; messages of a channel come in the order of their serials."""

    def add_source(self, flush: Callable[[bool], None]) -> None:
        """Registers a function that is called at every tick to record collected events: a portion,
        or (True) all of them."""


class NoJournal:
    """The journal of a hub that keeps none."""

    enabled = False

    def record(self, event: JournalEvent) -> None:
        pass

    def published(self, message: Message, epoch: str, rule: PayloadRule) -> None:
        pass

    def add_source(self, flush: Callable[[bool], None]) -> None:
        pass


NO_JOURNAL = NoJournal()
