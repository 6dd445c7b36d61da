"""The rarer envelope fields as keyword arguments of publishing functions."""

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
"""The hub decides whether the caller may name another sender."""


class Envelope(TypedDict, total=False):
    """All fields are optional. `relevant_until` is in milliseconds since 1970 and only informative;
    after `ttl` milliseconds the message expires (0: never); `priority` is 0 to 5. `headers` may
    contain any JSON, `location` any object (`lat` and `lng` in degrees)."""

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
    """`security_token` is for features of the hub that require one; it is part of no message."""

    security_token: str


def attributes_of(envelope: Mapping[str, object]) -> Attributes | None:
    """None if no field is given. Raises `InvalidAttribute`, like the hub, and `TypeError` for an
    unknown field."""
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
    """The bytes of the payload and of the rarer envelope fields."""
    attributes = item.attributes
    return len(item.payload) + (0 if attributes is None else len(msgspec.json.encode(attributes)))
