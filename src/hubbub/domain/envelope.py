"""The envelope of a message: checks of its fields, and the message's expiry."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from hubbub.domain.errors import InvalidAttribute, NotPermitted
from hubbub.domain.fields import wire_name
from hubbub.domain.messages import Attributes, Message
from hubbub.domain.permissions import Identity
from hubbub.domain.requests import PublishItem

MAX_TEXT: Final = 256
"""The most characters of a name or id in the envelope."""
MAX_HEADERS_BYTES: Final = 8 * 1024
MAX_LOCATION_BYTES: Final = 1024
MAX_DEPTH: Final = 16
"""Nesting depth of headers and locations."""
HIGHEST_PRIORITY: Final = 5
_MOST: Final = 2**53 - 1
"""The greatest integer that every JSON reader preserves."""
_LARGEST: Final = 2**64 - 1
_SMALLEST: Final = -(2**63)
"""The smallest integer in headers and locations: every store preserves 64 bits."""
MAX_TOKEN: Final = 4096
"""The most characters of a security token."""
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
OBJECTS: Final = {"location": MAX_LOCATION_BYTES, "headers": MAX_HEADERS_BYTES}
"""The maximum JSON size of each object field."""
NUMBERS: Final = {
    "priority": HIGHEST_PRIORITY,
    "relevant_until": _MOST,
    "ttl": _MOST,
}
"""The maximum of each number field; the minimum is 0."""
_HUB_SETS: Final = ("producer_id", "producer_seq", "dead_letter_of")


def check_envelope(item: PublishItem, identity: Identity) -> None:
    """Checks the rarer fields of a publish, for all protocols. Raises `InvalidAttribute`, or
    `NotPermitted` if a client names another sender."""
    token = item.security_token
    if token is not None and not 0 < len(token) <= MAX_TOKEN:
        raise InvalidAttribute(
            f"securityToken has {len(token)} characters; give 1 to {MAX_TOKEN}, or none"
        )
    if item.attributes is not None:
        check_attributes(item.attributes, identity)


def check_attributes(attributes: Attributes, identity: Identity) -> None:
    """Raises `InvalidAttribute`, or `NotPermitted` if a client names another sender."""
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
    for name in OBJECTS:
        check_object(name, getattr(attributes, name))
    sender = attributes.sender
    if sender is not None and sender != identity.user_id and not identity.trusted:
        raise NotPermitted(
            f"sender is {sender!r}, which is not the caller; only a service may name another sender"
        )


def expires_at(message: Message) -> int | None:
    """When the message expires, in ms since 1970; None: never."""
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


def check_storable(name: str, value: dict[str, Any]) -> None:
    """Checks that the object can be stored and sent between nodes. Raises `InvalidAttribute`."""
    if _depth(value, MAX_DEPTH) > MAX_DEPTH:
        raise InvalidAttribute(f"{name} has more than {MAX_DEPTH} levels; make it flatter")
    if not _storable(value):
        raise InvalidAttribute(f"{name} has a whole number of more than 64 bits; write it as text")


def check_object(name: str, value: dict[str, Any] | None) -> None:
    """Checks a location or headers. The members of a location are checked by filters only. Raises
    `InvalidAttribute`."""
    if value is None:
        return
    check_storable(name, value)
    size, most = len(msgspec.json.encode(value)), OBJECTS[name]
    if size > most:
        raise InvalidAttribute(
            f"{name} takes {size} bytes; at most {most} fit, the payload takes more"
        )


def _depth(value: object, most: int) -> int:
    """Nesting depth; counts no further than `most` + 1."""
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
    """Whether all integers inside fit into 64 bits."""
    if isinstance(value, dict):
        return all(map(_storable, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_storable, value))
    return not isinstance(value, int) or _SMALLEST <= value <= _LARGEST
