"""A message as filters read it; its payload is decoded once for all filters."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final

import msgspec

from hubbub.domain.messages import Message, is_json, is_text


class _Absent(Enum):
    ABSENT = 0


ABSENT: Final = _Absent.ABSENT
"""The message does not have the attribute. Equal to no JSON value."""

_decode = msgspec.json.Decoder().decode
_BYTES_IN_A_CHECK: Final = 32
"""How many payload bytes can be decoded, in the worst case, in the time of one comparison."""


class MessageView:
    """One message at one moment, shared by all filters that evaluate it."""

    __slots__ = ("message", "now", "payload", "units", "unread")

    payload: Any
    """The JSON value; the text of `text/…`; `ABSENT` for other types, which are opaque."""

    def __init__(self, message: Message, now: int) -> None:
        """`now`: milliseconds since 1970, for filters on relevance."""
        self.message = message
        self.now = now
        self.units: dict[object, bytes] = {}
        """The encoded message, by encoder."""
        self.unread = len(message.payload) // _BYTES_IN_A_CHECK
        """The cost of decoding the payload, in comparisons; 0 once it is decoded."""

    def __getattr__(self, name: str) -> Any:
        """Called when a slot is still empty: later accesses to the payload cost no call."""
        if name != "payload":
            raise AttributeError(name)
        self.unread = 0
        self.payload = _read(self.message)
        return self.payload


def _read(message: Message) -> Any:
    try:
        if is_json(message.content_type):
            return _decode(message.payload)
        if is_text(message.content_type):
            return message.payload.decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass  # published as it came, by a door that checks no payload
    return ABSENT


Getter = Callable[[MessageView], Any]
"""Returns a JSON value or `ABSENT`."""
Predicate = Callable[[MessageView], bool]


def payload(view: MessageView) -> Any:
    return view.payload


def at_path(getter: Getter, keys: tuple[str, ...]) -> Getter:
    """The value at a path below the getter's value. A key is a member name or a list index."""
    if not keys:
        return getter
    if len(keys) == 1 and getter is payload:
        return _of_payload(keys[0])

    def get(view: MessageView) -> Any:
        value = getter(view)
        for key in keys:
            value = value.get(key, ABSENT) if type(value) is dict else _element(value, key)
            if value is ABSENT:
                break
        return value

    return get


def _of_payload(key: str) -> Getter:
    """A faster getter for one member of the payload, the most common case."""

    def get(view: MessageView) -> Any:
        value = view.payload
        return value.get(key, ABSENT) if type(value) is dict else _element(value, key)

    return get


def _element(value: Any, key: str) -> Any:
    if type(value) is list and key.isascii() and key.isdigit() and len(key) < 10:
        position = int(key)
        if position < len(value):
            return value[position]
    return ABSENT
