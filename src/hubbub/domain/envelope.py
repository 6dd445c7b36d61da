"""The envelope of a message: what a publisher may say in it, and when the message expires."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from hubbub.domain.errors import InvalidAttribute, NotPermitted
from hubbub.domain.fields import wire_name
from hubbub.domain.messages import Attributes, Message
from hubbub.domain.permissions import Identity
from hubbub.domain.requests import PublishItem

MAX_TEXT: Final = 256
"""Characters of a name or id in the envelope."""
MAX_HEADERS_BYTES: Final = 8 * 1024
MAX_LOCATION_BYTES: Final = 1024
MAX_DEPTH: Final = 16
"""Objects and lists inside each other, in headers and locations."""
HIGHEST_PRIORITY: Final = 5
_MOST: Final = 2**53 - 1
"""The greatest whole number that every JSON reader keeps."""
_LARGEST: Final = 2**64 - 1
_SMALLEST: Final = -(2**63)
"""Whole numbers in headers and locations: what every store keeps."""
MAX_TOKEN: Final = 4096
"""Characters of a security token."""
TEXTS: Final = (
    "subtype",
    "author",
    "sender",
    "receiver",
    "conversation_id",
    "refers_to",
    "language",
    "delivery_policy",
)
OBJECTS: Final = ("location", "headers")
NUMBERS: Final = {
    "priority": HIGHEST_PRIORITY,
    "relevant_until": _MOST,
    "ttl": _MOST,
}
"""By their greatest value; the smallest is 0."""
_HUB_SETS: Final = ("producer_id", "producer_seq", "dead_letter_of")
_DEGREES: Final = {"lat": 90.0, "lng": 180.0}


def check_envelope(item: PublishItem, identity: Identity) -> None:
    """The one check of the rarer fields, for every door. Raises `InvalidAttribute`, or
    `NotPermitted` where a client speaks for another sender."""
    token = item.security_token
    if token is not None and not 0 < len(token) <= MAX_TOKEN:
        raise InvalidAttribute(
            f"securityToken has {len(token)} characters; give 1 to {MAX_TOKEN}, or none"
        )
    if item.attributes is not None:
        check_attributes(item.attributes, identity)


def check_attributes(attributes: Attributes, identity: Identity) -> None:
    """Raises `InvalidAttribute`, or `NotPermitted` where a client speaks for another sender."""
    for name in _HUB_SETS:
        if getattr(attributes, name) is not None:
            raise InvalidAttribute(f"{wire_name(name)} is set by the hub alone; leave it out")
    for name in TEXTS:
        value = getattr(attributes, name)
        if value is not None:
            _check_text(name, value)
    for name, most in NUMBERS.items():
        number = getattr(attributes, name)
        if number is not None and not 0 <= number <= most:
            raise InvalidAttribute(f"{wire_name(name)} is {number}; give a number from 0 to {most}")
    if attributes.headers is not None:
        _check_object("headers", attributes.headers, MAX_HEADERS_BYTES)
    if attributes.location is not None:
        _check_location(attributes.location)
    sender = attributes.sender
    if sender is not None and sender != identity.user_id and not identity.trusted:
        raise NotPermitted(
            f"sender is {sender!r}, which is not the caller; only a service may name another sender"
        )


def expires_at(message: Message) -> int | None:
    """When the message is to be delivered no longer, in ms since 1970; None: never."""
    attributes = message.attributes
    if attributes is None or not attributes.ttl:
        return None
    return message.published_at + attributes.ttl


def has_expired(message: Message, now: int) -> bool:
    """`now`: milliseconds since 1970."""
    attributes = message.attributes
    if attributes is None or not attributes.ttl:
        return False
    return message.published_at + attributes.ttl <= now


def _check_text(name: str, value: str) -> None:
    if not value or len(value) > MAX_TEXT or not value.isprintable():
        raise InvalidAttribute(
            f"{wire_name(name)} is {value[:40]!r}; give 1 to {MAX_TEXT} printable characters"
        )


def _check_location(location: dict[str, Any]) -> None:
    _check_object("location", location, MAX_LOCATION_BYTES)
    for name, most in _DEGREES.items():
        value = location.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > most:
            raise InvalidAttribute(
                f"location.{name} is {str(value)[:40]!r}; give degrees from -{most:g} to {most:g}"
            )


def check_storable(name: str, value: dict[str, Any]) -> None:
    """That nodes can tell each other the object and store it. Raises `InvalidAttribute`."""
    if _depth(value, MAX_DEPTH) > MAX_DEPTH:
        raise InvalidAttribute(f"{name} has more than {MAX_DEPTH} levels; make it flatter")
    if not _storable(value):
        raise InvalidAttribute(f"{name} has a whole number of more than 64 bits; write it as text")


def _check_object(name: str, value: dict[str, Any], most_bytes: int) -> None:
    check_storable(name, value)
    size = len(msgspec.json.encode(value))
    if size > most_bytes:
        raise InvalidAttribute(
            f"{name} takes {size} bytes; at most {most_bytes} fit, the payload takes more"
        )


def _depth(value: object, most: int) -> int:
    """How many objects and lists lie inside each other; counts no further than `most` + 1."""
    if isinstance(value, dict):
        inner = value.values()
    elif isinstance(value, list | tuple):
        inner = value  # type: ignore[assignment]
    else:
        return 0
    if not most:
        return 1
    return 1 + max((_depth(each, most - 1) for each in inner), default=0)


def _storable(value: object) -> bool:
    """Whether all whole numbers inside fit into 64 bits."""
    if isinstance(value, dict):
        return all(map(_storable, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_storable, value))
    return not isinstance(value, int) or _SMALLEST <= value <= _LARGEST
