"""How a published message becomes an event."""

from __future__ import annotations

from typing import Any

import msgspec

from hubbub.domain.journal import PUBLISHED, JournalEvent, PayloadRule
from hubbub.domain.messages import Attributes, Message


class PublishedEvent(msgspec.Struct, omit_defaults=True, gc=False):
    """The fields of a `JournalEvent` that most messages have, and no others: made and encoded in a
    fraction of the time, which counts here alone."""

    kind: str
    at: int
    hub: str
    node: str
    channel: str
    message_id: str
    epoch: str
    stored: bool
    event: str
    content_type: str
    size: int
    published_at: int
    serial: int | None = None
    session: str | None = None
    user: str | None = None
    technology: str | None = None
    payload: bytes | None = None


Event = PublishedEvent | JournalEvent


def published_event(message: Message, epoch: str, rule: PayloadRule, node: str) -> Event:
    at = message.taken_at or message.published_at * 1000
    payload = message.payload
    attributes = message.attributes
    if attributes is not None:
        return _with_attributes(message, attributes, epoch, rule, node, at)
    return PublishedEvent(
        PUBLISHED,
        at,
        message.hub,
        node,
        message.channel,
        message.id,
        epoch,
        message.store,
        message.event,
        message.content_type,
        len(payload),
        at,
        message.serial or None,
        message.session,
        message.publisher,
        message.technology,
        payload if rule == "payload" else None,
    )


def _with_attributes(
    message: Message, attributes: Attributes, epoch: str, rule: PayloadRule, node: str, at: int
) -> JournalEvent:
    more: dict[str, Any] = {
        "producer": attributes.producer_id,
        "sequence": attributes.producer_seq,
        "conversation_id": attributes.conversation_id,
        "refers_to": attributes.refers_to,
        "sender": attributes.sender,
        "receiver": attributes.receiver,
        "language": attributes.language,
        "headers": attributes.headers,
    }
    return JournalEvent(
        PUBLISHED,
        at,
        message.hub,
        node,
        channel=message.channel,
        session=message.session,
        user=message.publisher,
        technology=message.technology,
        message_id=message.id,
        epoch=epoch,
        serial=message.serial or None,
        stored=message.store,
        event=message.event,
        content_type=message.content_type,
        size=len(message.payload),
        payload=message.payload if rule == "payload" else None,
        published_at=at,
        **more,
    )
