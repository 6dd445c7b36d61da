"""What the journal keeps of a document's changes."""

from __future__ import annotations

from hubbub.domain.documents.changes import PATCH, DocumentUpdate
from hubbub.domain.journal import DOCUMENT_CHANGED, JournalEvent
from hubbub.engine.channels.channel import Channel
from hubbub.ports.journal import Journal


def record_change(journal: Journal, channel: Channel, update: DocumentUpdate, size: int) -> None:
    """As the channel's rule says; the operations only where payloads are kept."""
    rule = channel.rules.journal
    if not journal.enabled or rule == "off":
        return
    journal.record(
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
