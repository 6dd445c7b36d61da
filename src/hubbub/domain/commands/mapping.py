"""An hMessage as a message of a channel, and back.

| hMessage | message |
|---|---|
| chid, msgid | channel, id |
| chid of a user, where the message is stored | receiver; with a resource also in `structured` |
| type | event |
| convid, relevance | conversation_id, relevant_until |
| author, priority, location, headers | attributes of the same name |
| publisher | publisher; with a resource also in `structured` |
| published, unknown attributes | `structured` |
| transient: false | store |

Defaults are not kept: the way back fills them in. Messages from other doors are read in the same
way.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any, Final

import msgspec

from hubbub.domain.commands.jids import HUB_USER, Jid, channel_id, parse_jid
from hubbub.domain.commands.objects import DEFAULT_PRIORITY, HMessage
from hubbub.domain.commands.status import invalid
from hubbub.domain.envelope import MAX_HEADERS_BYTES
from hubbub.domain.errors import InvalidPayload
from hubbub.domain.messages import JSON, Attributes, Message, is_json, is_text
from hubbub.domain.payloads import json_text
from hubbub.domain.requests import PublishItem
from hubbub.domain.rules import COLLECTIONS

_CHID: Final = "chid"
_PUBLISHER: Final = "publisher"
_PUBLISHED: Final = "published"
_MORE: Final = "more"
_NOTHING: Final = Attributes()


def to_stored_item(message: HMessage, receiver: Jid, channel: str) -> PublishItem:
    """Like `to_item`, for a message to a user; `channel` is the channel that stores such
    messages."""
    item = to_item(message, channel)
    assert item.attributes is not None
    structured = dict(item.attributes.structured or {})
    if receiver.resource is not None:
        structured[_CHID] = str(receiver)
    attributes = msgspec.structs.replace(
        item.attributes, receiver=receiver.user, structured=structured or None
    )
    return msgspec.structs.replace(item, attributes=attributes)


def to_item(message: HMessage, channel: str) -> PublishItem:
    """Returns the item to publish for a completed hMessage. Raises `CommandRefused` (7) if the
    payload or the unknown attributes cannot be stored; the limits of the other attributes are
    checked when the item is published."""
    return PublishItem(
        channel=channel,
        event=message.type or "",
        payload=_encoded(message.payload, "payload"),
        content_type=JSON,
        store=message.transient is False,
        transient=message.transient is True,
        attributes=to_attributes(message),
    )


def to_attributes(message: HMessage) -> Attributes:
    return Attributes(
        author=message.author,
        conversation_id=message.convid,
        priority=None if message.priority == DEFAULT_PRIORITY else message.priority,
        relevant_until=message.relevance,
        location=message.location,
        headers=message.headers,
        structured=_structured(message),
    )


def from_message(message: Message) -> HMessage:
    """Converts a message of a channel, from whichever protocol, to an hMessage."""
    attributes = message.attributes or _NOTHING
    structured = attributes.structured or {}
    publisher = structured.get(_PUBLISHER) or Jid(message.publisher or HUB_USER, message.hub)
    chid = channel_id(message.channel, message.hub)
    if message.channel in COLLECTIONS and attributes.receiver is not None:
        chid = structured.get(_CHID) or str(Jid(attributes.receiver, message.hub))
    return HMessage(
        chid=chid,
        publisher=str(publisher),
        msgid=message.id,
        convid=attributes.conversation_id or message.id,
        type=message.event or None,
        priority=DEFAULT_PRIORITY if attributes.priority is None else attributes.priority,
        relevance=attributes.relevant_until,
        transient=False if message.serial or message.store else None,
        location=attributes.location,
        author=attributes.author,
        published=published_of(message),
        headers=attributes.headers,
        payload=payload_of(message),
        more=structured.get(_MORE, {}),
    )


def published_of(message: Message) -> int:
    """Milliseconds since 1970, as the publisher stated them."""
    structured = (message.attributes and message.attributes.structured) or {}
    published: int = structured.get(_PUBLISHED, message.published_at)
    return published


def payload_of(message: Message) -> Any:
    """The payload as a JSON value: text unchanged, other bytes in base64."""
    if is_json(message.content_type):
        return msgspec.json.decode(message.payload)
    if is_text(message.content_type):
        return message.payload.decode()
    return b64encode(message.payload).decode()


def _structured(message: HMessage) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    publisher = parse_jid(message.publisher)
    if publisher is None or str(publisher.bare) != message.publisher:
        found[_PUBLISHER] = message.publisher
    if message.published is not None:
        found[_PUBLISHED] = message.published
    if message.more:
        size = len(_encoded(message.more, "attributes"))
        if size > MAX_HEADERS_BYTES:
            raise invalid(
                f"the attributes {', '.join(message.more)[:60]} take {size} bytes; at most "
                f"{MAX_HEADERS_BYTES} fit, the payload takes more"
            )
        found[_MORE] = message.more
    return found or None


def _encoded(value: Any, what: str) -> bytes:
    try:
        return json_text(msgspec.json.encode(value))
    except (InvalidPayload, UnicodeEncodeError, OverflowError, RecursionError) as error:
        raise invalid(f"{what} cannot be kept: {error}") from None
