"""How a message lies in the database: one row of `messages`, or one blob of `retained`."""

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
"""Takes what `to_row` answers."""

MESSAGE_COLUMNS = (
    "serial, published_at, id, event, content_type, publisher, flags, attributes, payload"
)
"""What `from_row` reads."""
MESSAGE_SIZE = "length(payload) + COALESCE(length(attributes), 0) AS size"
"""Read without the payload itself."""

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
    """The whole message, for where it is only ever read as a whole."""
    return _encoder.encode(message)


def from_blob(blob: bytes) -> Message:
    return _message_decoder.decode(blob)
