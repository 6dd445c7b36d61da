"""Peers that follow channels: converts a channel's message to a message to a peer."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from hubbub.domain.communication.contents import content_of, media_type_header
from hubbub.domain.communication.messages import (
    AUTH,
    BINARY_LANGUAGE,
    COMPONENT,
    CONTROL,
    FOLLOWED,
    MAX_TEXT,
    MAX_TTL_MS,
    RESERVED_TYPES,
    PeerMessage,
)
from hubbub.domain.messages import Attributes, Message
from hubbub.domain.webhooks import Webhook

ORIGINAL: Final = "message"
"""The header with the id of the channel's message. Replies refer to that id."""
VIA: Final = "via"
"""The header that lists the channels that a message passed through, as hashes."""
_MAX_VIA: Final = 16
_MAX_HEADER: Final = 1000


def copy_id(subscription: str, message_id: str) -> str:
    """Returns the same id each time the message is delivered; nobody else can create such an id."""
    place = blake2b(message_id.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{subscription}.{place}{FOLLOWED}"


def subscription_of(message_id: str) -> str | None:
    """Returns the id of the peer subscription that caused the message; None if there is none."""
    return message_id.partition(".")[0] if message_id.endswith(FOLLOWED) else None


def is_of_another(subscription: Webhook, message: Message) -> bool:
    """Whether the message is a report or a login response to another peer, whom an adapter reaches
    on this channel."""
    receiver = message.attributes.receiver if message.attributes is not None else None
    return message.event in (CONTROL, AUTH) and receiver not in (None, subscription.callback)


def copy_to_peer(subscription: Webhook, message: Message) -> PeerMessage | None:
    """Returns the message that the peer receives, with the channel as its sender; None if the
    message already passed through this channel via an adapter, since it would loop."""
    attributes = message.attributes or Attributes()
    headers = attributes.headers or {}
    passed = str(headers.get(VIA, "")).split()
    here = blake2b(subscription.channel.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    if here in passed or len(passed) >= _MAX_VIA:
        return None
    conversation = fit(attributes.conversation_id or "")
    subject = headers.get("subject") or conversation or subscription.channel
    content = content_of(message)
    binary = isinstance(content, bytes)
    reserved = message.event.upper() in RESERVED_TYPES
    return PeerMessage(
        id=copy_id(subscription.id, message.id),
        type="MESSAGE" if reserved else fit(message.event) or "MESSAGE",
        subtype=fit(attributes.subtype or "") or "TEXT",
        sender=fit(f"{COMPONENT}{subscription.channel}"),
        receiver=subscription.callback,
        conversation_id=conversation,
        language=fit(attributes.language or "") or (BINARY_LANGUAGE if binary else ""),
        content=content,
        ttl_ms=min(max(attributes.ttl or 0, 0), MAX_TTL_MS),
        headers={
            ORIGINAL: message.id[:_MAX_HEADER],
            "serial": str(message.serial),
            "subject": fit(str(subject)),
            VIA: " ".join((*passed, here)),
            **media_type_header(message),
            **({"publisher": message.publisher[:_MAX_HEADER]} if message.publisher else {}),
        },
    )


def fit(text: str) -> str:
    """Replaces characters that fields of a message must not contain, and truncates the text."""
    return "".join(each if each.isprintable() else " " for each in text[:MAX_TEXT]).strip()
