"""Converts messages to peers to and from messages of the log."""

from __future__ import annotations

from hubbub.domain.communication.contents import content_of, payload_of
from hubbub.domain.communication.control import redacted
from hubbub.domain.communication.messages import PeerMessage
from hubbub.domain.messages import Attributes, Message
from hubbub.domain.names import COMMUNICATION_LOG


def to_logged(hub: str, message: PeerMessage, at: int, technology: str) -> Message:
    """Returns the message without secrets. `at` is in milliseconds since 1970."""
    kept = redacted(message)
    payload, content_type = payload_of(kept.content)
    attributes = Attributes(
        subtype=kept.subtype,
        sender=kept.sender or None,
        receiver=kept.receiver or None,
        conversation_id=kept.conversation_id or None,
        refers_to=kept.refers_to or None,
        ttl=kept.ttl_ms or None,
        language=kept.language or None,
        headers=dict(kept.headers) or None,
        delivery_policy=kept.delivery_policy if kept.delivery_policy == "ACKNOWLEDGED" else None,
    )
    return Message(
        kept.id,
        hub,
        COMMUNICATION_LOG,
        kept.type,
        payload,
        content_type,
        at,
        publisher=kept.sender or None,
        store=True,
        attributes=attributes,
        taken_at=at * 1000,
        technology=technology,
    )


def from_logged(message: Message) -> PeerMessage:
    attributes = message.attributes or Attributes()
    return PeerMessage(
        id=message.id,
        type=message.event,
        subtype=attributes.subtype or "",
        sender=attributes.sender or "",
        receiver=attributes.receiver or "",
        conversation_id=attributes.conversation_id or "",
        language=attributes.language or "",
        content=content_of(message),
        ttl_ms=attributes.ttl or 0,
        delivery_policy=(
            "ACKNOWLEDGED" if attributes.delivery_policy == "ACKNOWLEDGED" else "UNACKNOWLEDGED"
        ),
        refers_to=attributes.refers_to or "",
        headers={name: str(text) for name, text in (attributes.headers or {}).items()},
    )
