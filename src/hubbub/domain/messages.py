"""The message: one envelope for all that passes through the hub."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

import msgspec

from hubbub.domain.communication.steps import CommunicationStep
from hubbub.domain.documents.changes import ChangeOptions
from hubbub.domain.push.options import PushOptions
from hubbub.domain.wire import LOCAL, Wire

JSON = "application/json"
TEXT = "text/plain"
BINARY = "application/octet-stream"
ERASED_CONTENT_TYPE, ERASED_PAYLOAD = JSON, b"null"
"""What is left of a message whose publisher was erased."""


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
    media_type: Annotated[str | None, LOCAL] = None
    """The content type as its publisher spelt it, for receivers of webhooks; None: it is the
    message's own."""
    traceparent: Annotated[str | None, LOCAL] = None
    """The span that what happens to the message belongs to (`domain.traces`); None: the message is
    not traced."""


class Stamp(msgspec.Struct, frozen=True):
    """Who put a message, and as which of its puts to this channel: the first is 1. `fence` is what
    opening the producer answered; 0: the caller does without."""

    principal: str
    producer: str
    sequence: int
    fence: int = 0

    @property
    def keyed(self) -> bool:
        """By an idempotency key: each key is a sequence of its own, in no order."""
        return self.producer == _KEYS


_KEYS = "\x1fkeys"
"""The producer of all keyed publishes of a principal. No other has a control character."""


def keyed_stamp(principal: str, key: str) -> Stamp:
    """Of a publish with an idempotency key. Two keys out of a thousand million would have to be the
    same in 63 bits to be taken for one another; the content of the messages is compared, too."""
    digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return Stamp(principal, _KEYS, (int.from_bytes(digest) >> 1) or 1)


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
    communication: Annotated[CommunicationStep | None, LOCAL] = None
    """On its way from the owner to the store only."""


def change_of(message: Message) -> ChangeOptions | None:
    """None: it is a message like any other."""
    attributes = message.attributes
    return None if attributes is None else attributes.change


def is_json(content_type: str) -> bool:
    return content_type == JSON


def is_text(content_type: str) -> bool:
    return content_type.startswith("text/")
