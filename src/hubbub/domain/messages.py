"""The message: one envelope for everything that passes through the hub."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

import msgspec

from hubbub.domain.wire import LOCAL, Wire

JSON = "application/json"
TEXT = "text/plain"
BINARY = "application/octet-stream"
ERASED_CONTENT_TYPE, ERASED_PAYLOAD = JSON, b"null"
"""The content of a message whose publisher was erased."""


class Attributes(msgspec.Struct, frozen=True, omit_defaults=True):
    """The rarer fields of the envelope, which most messages do not have."""

    subtype: str | None = None
    author: str | None = None
    sender: str | None = None
    receiver: str | None = None
    conversation_id: str | None = None
    refers_to: str | None = None
    priority: int | None = None
    """0 (lowest) to 5."""
    relevant_until: int | None = None
    """Milliseconds since 1970; used only by filters and queries."""
    ttl: int | None = None
    """Milliseconds until the message expires; 0: never."""
    language: str | None = None
    location: dict[str, Any] | None = None
    """Any JSON object; filters read `lat` and `lng` in degrees."""
    headers: dict[str, Any] | None = None
    """Any JSON values."""
    delivery_policy: str | None = None
    producer_id: Annotated[str | None, LOCAL] = None
    producer_seq: Annotated[int | None, LOCAL] = None
    dead_letter_of: Annotated[str | None, LOCAL] = None
    """The id of the message that became this dead letter. Like the two fields above, only the hub
    sets it."""
    structured: Annotated[dict[str, Any] | None, LOCAL] = None
    """Attributes of an hMessage without a field in the envelope; see `domain.commands.mapping`."""
    media_type: Annotated[str | None, LOCAL] = None
    """The content type exactly as the publisher wrote it, for receivers of webhooks; None: same as
    the message's."""
    traceparent: Annotated[str | None, LOCAL] = None
    """The parent span of everything that happens to the message (`domain.traces`); None: not
    traced."""
    qos: Annotated[int | None, LOCAL] = None
    """The quality of service at which a device published the message: 0 or 1; None: the best that
    the channel gives."""


class Stamp(msgspec.Struct, frozen=True):
    """The producer of a message and its sequence number in this channel, starting at 1. `fence` is
    the value returned when the producer was opened; 0: no fencing."""

    principal: str
    producer: str
    sequence: int
    fence: int = 0

    @property
    def keyed(self) -> bool:
        """Whether the stamp comes from an idempotency key. Each key is a sequence of its own,
        without an order."""
        return self.producer == _KEYS


_KEYS = "\x1fkeys"
"""The producer id of all publishes of a principal with an idempotency key. Its control character
keeps it apart from clients' ids."""


def keyed_stamp(principal: str, key: str) -> Stamp:
    """The stamp of a publish with an idempotency key. Keys are hashed to 63 bits; on a collision,
    the contents of the messages are compared as well."""
    digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return Stamp(principal, _KEYS, (int.from_bytes(digest) >> 1) or 1)


class Message(msgspec.Struct, gc=False):
    """A message in a channel. `payload` is what the publisher sent; for `application/json` it is
    the JSON text, validated at publication and without line breaks.

    `serial` is 0 for a message without a position (an unstored message on a channel that stores);
    `published_at` is in milliseconds since 1970.

    The last fields exist only in memory: `taken_at` is the time of publication in microseconds
    since 1970 (0: unknown, the message was read from the store), `session` and `technology` tell
    how it was received.
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
    """Set only on the way to the owner: makes the message an idempotent put."""
    taken_at: Annotated[int, LOCAL] = 0
    session: Annotated[str | None, LOCAL] = None
    technology: Annotated[str | None, LOCAL] = None
    push_options: Annotated[dict[str, Any] | None, LOCAL] = None
    """Set only on the way to the owner; see `domain.push.options`."""


def is_json(content_type: str) -> bool:
    return content_type == JSON


def is_text(content_type: str) -> bool:
    return content_type.startswith("text/")
