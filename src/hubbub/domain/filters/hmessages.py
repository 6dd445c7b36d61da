"""The attributes of an hMessage, read from the message that carries it. As in `commands.mapping`,
addresses are JIDs and defaults are filled in."""

from __future__ import annotations

from typing import Any, Final

from hubbub.domain.commands.dates import read_date
from hubbub.domain.commands.jids import HUB_USER, Jid, channel_id, parse_jid
from hubbub.domain.commands.objects import DEFAULT_PRIORITY
from hubbub.domain.filters.definition import HMESSAGE_NAMES
from hubbub.domain.filters.names import (
    Names,
    field_of_message,
    location,
    rarer_field,
    relevant_until,
)
from hubbub.domain.filters.view import ABSENT, Getter, MessageView, payload


def _chid(view: MessageView) -> str:
    return channel_id(view.message.channel, view.message.hub)


def _convid(view: MessageView) -> str:
    found = _conversation_id(view)
    return view.message.id if found is ABSENT else found


def _type(view: MessageView) -> Any:
    return view.message.event or ABSENT


def _priority(view: MessageView) -> Any:
    found = _given_priority(view)
    return DEFAULT_PRIORITY if found is ABSENT else found


def _publisher(view: MessageView) -> str:
    """The publisher's bare JID, even if the publisher gave a resource."""
    return str(Jid(view.message.publisher or HUB_USER, view.message.hub))


def _published(view: MessageView) -> Any:
    found = _structured(view).get("published")
    return view.message.published_at if found is None else found


def _transient(view: MessageView) -> Any:
    return False if view.message.serial else ABSENT


def _structured(view: MessageView) -> dict[str, Any]:
    attributes = view.message.attributes
    return (attributes and attributes.structured) or {}


def _other(name: str) -> Getter:
    """An attribute that is not in the protocol and was stored unchanged."""

    def read(view: MessageView) -> Any:
        return _structured(view).get("more", {}).get(name, ABSENT)

    return read


def _bare(value: Any) -> Any:
    jid = parse_jid(value) if isinstance(value, str) else None
    return value if jid is None else str(jid.bare)


def _moment(value: Any) -> Any:
    date = read_date(value) if isinstance(value, str) else None
    return value if date is None else date


_conversation_id: Final = rarer_field("conversation_id")
_given_priority: Final = rarer_field("priority")

HMESSAGE: Final = Names(
    HMESSAGE_NAMES,
    {
        "msgid": field_of_message("id"),
        "chid": _chid,
        "convid": _convid,
        "type": _type,
        "priority": _priority,
        "relevance": relevant_until,
        "transient": _transient,
        "location": location,
        "author": rarer_field("author"),
        "publisher": _publisher,
        "published": _published,
        "headers": rarer_field("headers"),
        "payload": payload,
    },
    untemplated=frozenset({"msgid", "chid", "published", "relevance", "transient"}),
    other=_other,
    normal={"publisher": _bare, "published": _moment, "relevance": _moment},
)
"""Times are milliseconds since 1970; filters may also state them as dates."""
