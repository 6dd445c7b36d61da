"""The database form of a message: one row of `messages`, or one blob of `retained`."""

from __future__ import annotations

import msgspec

from hubbub.domain.messages import Attributes, Message
from hubbub.ports.storage.messages import Append
from hubbub.storage.sql.connection import Row, insert

INSERT_MESSAGE = insert(
    "messages",
    {
        "channel_id": "bigint",
        "serial": "bigint",
        "published_at": "bigint",
        "high_at": "bigint",
        "id": "text",
        "event": "text",
        "content_type": "text",
        "publisher": "text",
        "flags": "bigint",
        "attributes": "bytea",
        "payload": "bytea",
        "producer_id": "bigint",
        "sequence": "bigint",
    },
)
"""Its parameters are the result of `to_row`."""

MESSAGE_COLUMNS = (
    "serial, published_at, id, event, content_type, publisher, flags, attributes, payload"
)
"""The columns that `from_row` reads."""
MESSAGE_SIZE = "length(payload) + COALESCE(length(attributes), 0) AS size"
"""SQL for the size without reading the payload."""

MESSAGE_BYTES = 200
ENVELOPE_COLUMNS = ("id", "event", "content_type", "publisher", "attributes")
ERASED_SIZE = (
    "length(content_type) + coalesce(length(publisher), 0) + 2 * coalesce(length(attributes), 0)"
)
ENVELOPE_SIZE = f"{MESSAGE_BYTES} + length(id) + length(event) + {ERASED_SIZE}"
"""SQL for a message's size besides its payload, equal to `envelope_size`. Attributes count twice:
the index of conversations repeats part of them. `ERASED_SIZE` is the part that erasure replaces."""

_STORE, _RETAIN, _PUSH, _TRANSIENT = 1, 2, 4, 8

_encoder = msgspec.msgpack.Encoder()
_attributes_decoder = msgspec.msgpack.Decoder(Attributes)
_message_decoder = msgspec.msgpack.Decoder(Message)


def to_row(append: Append, channel_id: int, high_at: int) -> Row:
    message = append.message
    attributes = message.attributes
    return (
        channel_id,
        message.serial,
        message.published_at,
        high_at,
        message.id,
        message.event,
        message.content_type,
        message.publisher,
        (_STORE if message.store else 0)
        | (_RETAIN if message.retain else 0)
        | (_PUSH if message.push else 0)
        | (_TRANSIENT if message.transient else 0),
        None if attributes is None else _encoder.encode(attributes),
        message.payload,
        append.producer or None,
        append.sequence or None,
    )


def envelope_size(
    id_: str, event: str, content_type: str, publisher: str | None, attributes: bytes | None
) -> int:
    """The size of a row with these `ENVELOPE_COLUMNS`."""
    size = MESSAGE_BYTES + len(id_) + len(event) + len(content_type) + len(publisher or "")
    return size if attributes is None else size + 2 * len(attributes)


def from_row(row: Row, hub: str, channel: str) -> Message:
    serial, published_at, id_, event, content_type, publisher, flags, attributes, payload = row
    return Message(
        id=id_,
        hub=hub,
        channel=channel,
        event=event,
        payload=payload,
        content_type=content_type,
        published_at=published_at,
        serial=serial,
        publisher=publisher,
        store=bool(flags & _STORE),
        retain=bool(flags & _RETAIN),
        push=bool(flags & _PUSH),
        transient=bool(flags & _TRANSIENT),
        attributes=attributes_of(attributes),
    )


def attributes_of(stored: bytes | None) -> Attributes | None:
    return None if stored is None else _attributes_decoder.decode(stored)


def to_blob(message: Message) -> bytes:
    """Encodes the whole message, for tables that are only read as a whole."""
    return _encoder.encode(message)


def from_blob(blob: bytes) -> Message:
    return _message_decoder.decode(blob)
