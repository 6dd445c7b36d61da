"""Peers who follow channels: the message to a peer that a message of a channel becomes."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from hubbub.domain.communication.messages import (
    COMPONENT,
    FOLLOWED,
    MAX_TEXT,
    MAX_TTL_MS,
    RESERVED_TYPES,
    PeerMessage,
)
from hubbub.domain.messages import Attributes, Message, is_json, is_text
from hubbub.domain.webhooks import Webhook

ORIGINAL: Final = "message"
"""The header that holds the id of the channel's message. Answers refer to that message."""
VIA: Final = "via"
"""The header that lists the channels that a message came through, each of them as a hash."""
_MAX_VIA: Final = 16
_MAX_HEADER: Final = 1000


def copy_id(subscription: str, message_id: str) -> str:
    """The same whenever the message is handed over; nobody else can make such an id."""
    place = blake2b(message_id.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{subscription}.{place}{FOLLOWED}"


def subscription_of(message_id: str) -> str | None:
    """The id of the peer subscription that the message goes out for; None: there is none."""
    return message_id.partition(".")[0] if message_id.endswith(FOLLOWED) else None


def copy_to_peer(subscription: Webhook, message: Message) -> PeerMessage | None:
    """The message as the peer gets it, from the channel as its sender. None: it came through the
    channel before, by an adapter that publishes to channels, and would go round for ever."""
    attributes = message.attributes or Attributes()
    headers = attributes.headers or {}
    passed = str(headers.get(VIA, "")).split()
    here = blake2b(subscription.channel.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    if here in passed or len(passed) >= _MAX_VIA:
        return None
    conversation = _fit(attributes.conversation_id or "")
    subject = headers.get("subject") or conversation or subscription.channel
    reserved = message.event.upper() in RESERVED_TYPES
    return PeerMessage(
        id=copy_id(subscription.id, message.id),
        type="MESSAGE" if reserved else _fit(message.event) or "MESSAGE",
        subtype=_fit(attributes.subtype or "") or "TEXT",
        sender=_fit(f"{COMPONENT}{subscription.channel}"),
        receiver=subscription.callback,
        conversation_id=conversation,
        language=_fit(attributes.language or ""),
        content=_content(message),
        ttl_ms=min(max(attributes.ttl or 0, 0), MAX_TTL_MS),
        headers={
            ORIGINAL: message.id[:_MAX_HEADER],
            "serial": str(message.serial),
            "subject": _fit(str(subject)),
            VIA: " ".join((*passed, here)),
            **({"publisher": message.publisher[:_MAX_HEADER]} if message.publisher else {}),
        },
    )


def _content(message: Message) -> str:
    if is_json(message.content_type) or is_text(message.content_type):
        return message.payload.decode(errors="replace")
    return f"({len(message.payload)} bytes of {message.content_type})"


def _fit(text: str) -> str:
    """As the fields of a message must be."""
    return "".join(each if each.isprintable() else " " for each in text[:MAX_TEXT]).strip()
