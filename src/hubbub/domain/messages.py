"""The message: one envelope for all that passes through the hub."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from hubbub.domain.documents.changes import ChangeOptions
from hubbub.domain.push.options import PushOptions
from hubbub.domain.wire import LOCAL, Wire

JSON = "application/json"
TEXT = "text/plain"
BINARY = "application/octet-stream"


class Attributes(msgspec.Struct, frozen=True, omit_defaults=True):
    """The rarer parts of the envelope, which most messages do without."""

    subtype: str | None = None
    author: str | None = None
    sender: str | None = None
    receiver: str | None = None
    conversation_id: str | None = None
    refers_to: str | None = None
    priority: int | None = None
    """0 (lowest) to 5."""
    relevant_until: int | None = None
    """Milliseconds since 1970; informs filters and queries only."""
    ttl: int | None = None
    """Milliseconds after which the message is not delivered any more; 0: no limit."""
    language: str | None = None
    location: dict[str, Any] | None = None
    """Any JSON object; `lat` and `lng` in degrees where filters are to find it."""
    headers: dict[str, Any] | None = None
    """Any JSON values."""
    delivery_policy: str | None = None
    producer_id: Annotated[str | None, LOCAL] = None
    producer_seq: Annotated[int | None, LOCAL] = None
    dead_letter_of: Annotated[str | None, LOCAL] = None
    """The id of the message whose dead letter this is. Like the two above, only the hub sets it."""
    change: Annotated[ChangeOptions | None, LOCAL] = None
    """On its way to the owner only: the message changes the channel's document."""
    structured: Annotated[dict[str, Any] | None, LOCAL] = None
    """Of an hMessage, what has no field in the envelope; see `domain.commands.mapping`."""


class Stamp(msgspec.Struct, frozen=True):
    """Who put a message, and as which of its puts to this channel: the first is 1. `fence` is what
    opening the producer answered; 0: the caller does without."""

    principal: str
    producer: str
    sequence: int
    fence: int = 0


class Message(msgspec.Struct, gc=False):
    """A message in a channel. `payload` is what the publisher sent: for `application/json` the
    JSON text itself, validated when it was published and without line breaks.

    `serial` is 0 for a message that has no position (unstored, on a channel that stores);
    `published_at` is in milliseconds since 1970.

    The last fields live only as long as the message is under way: `taken_at` is the time of
    publication in microseconds since 1970 (0: unknown, it comes from the store), `session` and
    `technology` say which way it came in.
    """

    id: Annotated[str, Wire("msg_id")]
    hub: Annotated[str, LOCAL]
    channel: str
    event: str
    payload: bytes
    content_type: str
    published_at: Annotated[int, Wire("timestamp")]
    serial: Annotated[int, Wire("channel_serial")] = 0
    publisher: str | None = None
    store: Annotated[bool, LOCAL] = False
    retain: Annotated[bool, LOCAL] = False
    push: Annotated[bool, LOCAL] = False
    transient: Annotated[bool, LOCAL] = False
    attributes: Annotated[Attributes | None, Wire(flat_in_json=True)] = None
    stamp: Annotated[Stamp | None, LOCAL] = None
    """On its way to the owner only: makes it a put that can be repeated."""
    taken_at: Annotated[int, LOCAL] = 0
    session: Annotated[str | None, LOCAL] = None
    technology: Annotated[str | None, LOCAL] = None
    push_options: Annotated[PushOptions | None, LOCAL] = None
    """On its way to the owner only."""


def change_of(message: Message) -> ChangeOptions | None:
    """None: it is a message like any other."""
    attributes = message.attributes
    return None if attributes is None else attributes.change


def is_json(content_type: str) -> bool:
    return content_type == JSON


def is_text(content_type: str) -> bool:
    return content_type.startswith("text/")
