"""The rarer fields of a message's envelope, as keywords of whatever publishes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypedDict

import msgspec

from hubbub.domain.envelope import check_attributes
from hubbub.domain.errors import InvalidAttribute
from hubbub.domain.messages import Attributes
from hubbub.domain.permissions import Identity, Level
from hubbub.domain.requests import PublishItem

NO_ATTRIBUTES: Final = Attributes()
_ANYONE: Final = Identity(level=Level.SERVICE)
"""Whether the caller may name another sender is for the hub to say."""


class Envelope(TypedDict, total=False):
    """All may be left out. `relevant_until` is in milliseconds since 1970 and only informs; `ttl`
    is in milliseconds, after which nobody gets the message (0: no limit); `priority` is 0 to 5.
    `headers` may hold any JSON, `location` any object (`lat` and `lng` in degrees)."""

    subtype: str
    author: str
    sender: str
    receiver: str
    conversation_id: str
    refers_to: str
    priority: int
    relevant_until: int
    ttl: int
    language: str
    location: dict[str, Any]
    headers: dict[str, Any]
    delivery_policy: str


class PublishEnvelope(Envelope, total=False):
    """`security_token` is for features of the hub that ask for one; no message carries it."""

    security_token: str


def attributes_of(envelope: Mapping[str, object]) -> Attributes | None:
    """None where nothing is given. Raises `InvalidAttribute`, as the hub would, and `TypeError` for
    a name that no field has."""
    if not envelope:
        return None
    for name in envelope:
        if name not in Envelope.__annotations__:
            raise TypeError(f"the envelope has no field {name!r}")
    try:
        attributes = msgspec.convert(envelope, Attributes)
        check_attributes(attributes, _ANYONE)
    except (msgspec.ValidationError, TypeError, RecursionError) as error:
        raise InvalidAttribute(f"the envelope cannot be written: {error}") from None
    return None if attributes == NO_ATTRIBUTES else attributes


def fields_of(attributes: Attributes) -> dict[str, Any]:
    """The fields that are set, by name."""
    named = msgspec.structs.asdict(attributes)
    return {name: value for name, value in named.items() if value is not None}


def size_of(item: PublishItem) -> int:
    """Bytes of the payload and of the rarer fields."""
    attributes = item.attributes
    return len(item.payload) + (0 if attributes is None else len(msgspec.json.encode(attributes)))
