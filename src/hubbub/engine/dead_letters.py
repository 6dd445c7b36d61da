"""Dead letters: messages that were handed out too often, put aside with a note of where from."""

from __future__ import annotations

from hubbub.domain.cursors import Cursor
from hubbub.domain.messages import Attributes, Message, Stamp
from hubbub.domain.topics import SubscriptionKey, dead_letter_channel

_PRINCIPAL = "subscription"


def dead_letter(key: SubscriptionKey, cursor: Cursor, message: Message, now: int) -> Message:
    """The message as it goes to its dead letters. It is the subscription's own put, numbered by how
    many there were, so that one that is repeated after a crash is stored once."""
    headers = {
        "deadFrom": message.channel,
        "deadSerial": str(message.serial),
        "deadSubscription": key.name,
        "deadOwner": key.owner,
    }
    return Message(
        id=f"dead-{message.id}",
        hub=message.hub,
        channel=dead_letter_channel(key.channel, cursor.options),
        event=message.event,
        payload=message.payload,
        content_type=message.content_type,
        published_at=now,
        publisher=message.publisher,
        store=True,
        attributes=Attributes(refers_to=message.id, headers=headers),
        stamp=Stamp(_PRINCIPAL, f"{key.channel} {key.owner} {key.name}", cursor.dead_letters + 1),
    )
