"""Journal events about changes of documents."""

from __future__ import annotations

from hubbub.domain.documents.changes import PATCH, DocumentUpdate
from hubbub.domain.documents.journal import DOCUMENT_CHANGED
from hubbub.domain.journal import JournalEvent
from hubbub.engine.channels.channel import Channel
from hubbub.ports.journal import Journal


class DocumentEvents:
    """Records changes according to the channel's rule; operations only if payloads are kept."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def changed(self, channel: Channel, update: DocumentUpdate, size: int) -> None:
        rule = channel.rules.journal
        if not self._journal.enabled or rule == "off":
            return
        self._journal.record(
            JournalEvent(
                DOCUMENT_CHANGED,
                update.timestamp * 1000,
                channel.hub,
                channel=channel.name,
                user=update.author,
                message_id=update.change_id,
                epoch=update.epoch,
                serial=update.version,
                content_type=PATCH,
                size=len(update.ops),
                payload=update.ops if rule == "payload" else None,
                extra={"documentBytes": str(size)},
            )
        )
