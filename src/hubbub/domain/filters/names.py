"""The attributes of a message that filters can use, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final

from hubbub.domain.fields import wire_name
from hubbub.domain.filters.definition import ENVELOPE_NAMES
from hubbub.domain.filters.view import ABSENT, Getter, MessageView, payload


@dataclass(frozen=True, slots=True, eq=False)
class Names:
    """A naming scheme for attributes. Its `label` is part of a filter's key."""

    label: str
    getters: Mapping[str, Getter]
    untemplated: frozenset[str]
    """Attributes that a template cannot contain, since each message has its own value."""
    other: Callable[[str], Getter] | None = None
    """Creates the getter for any other attribute; None: other attributes do not exist."""
    normal: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    """By attribute: a function that normalizes a value of a filter before it is compared."""

    def find(self, name: str) -> Getter | None:
        """Returns None if the attribute does not exist."""
        getter = self.getters.get(name)
        return self.other(name) if getter is None and self.other is not None else getter


def field_of_message(name: str) -> Getter:
    get = attrgetter(f"message.{name}")

    def read(view: MessageView) -> Any:
        value = get(view)
        return ABSENT if value is None else value

    return read


def rarer_field(name: str) -> Getter:
    """A getter for a field of the message's `Attributes`."""
    get = attrgetter(name)

    def read(view: MessageView) -> Any:
        attributes = view.message.attributes
        if attributes is None:
            return ABSENT
        value = get(attributes)
        return ABSENT if value is None else value

    return read


location: Final = rarer_field("location")
relevant_until: Final = rarer_field("relevant_until")

_RARER: Final = (
    "subtype",
    "author",
    "sender",
    "receiver",
    "conversation_id",
    "refers_to",
    "priority",
    "relevant_until",
    "ttl",
    "language",
    "location",
    "headers",
    "delivery_policy",
)
_ALIASES: Final = {
    "msgid": "msgID",
    "chid": "channel",
    "convid": "conversationID",
    "type": "event",
    "relevance": "relevantUntil",
    "published": "ts",
    "timestamp": "ts",
}
"""Names of the same attributes in hMessages and in spec/hubbub.proto."""


def _envelope() -> dict[str, Getter]:
    getters = {wire_name(name): rarer_field(name) for name in _RARER}
    getters |= {
        "msgID": field_of_message("id"),
        "channel": field_of_message("channel"),
        "event": field_of_message("event"),
        "contentType": field_of_message("content_type"),
        "ts": field_of_message("published_at"),
        "publisher": field_of_message("publisher"),
        "payload": payload,
    }
    return getters | {alias: getters[name] for alias, name in _ALIASES.items()}


_OF_ONE_MESSAGE: Final = ("msgID", "channel", "ts", "relevantUntil")

ENVELOPE: Final = Names(
    ENVELOPE_NAMES,
    _envelope(),
    untemplated=frozenset(
        {*_OF_ONE_MESSAGE, *(a for a, name in _ALIASES.items() if name in _OF_ONE_MESSAGE)}
    ),
)
"""The names of the events `Publish` and `History`, and those of an hMessage as aliases. Times are
milliseconds since 1970."""
