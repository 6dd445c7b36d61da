"""Server-sent events: the socket's JSON, with the resume position as the event id.

A position vector holds, for each channel of the stream, its epoch and the last serial sent:
`<channel>.<epoch>.<serial>` joined by `~`, with both names in base64; for a channel with a document
followed by `.<document's epoch>.<version>`. A stream with patterns lists the recently active
channels after `@<milliseconds>`, the time from which all other channels resume. Clients treat the
id as opaque.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from hubbub.domain.errors import Malformed, TooLarge
from hubbub.domain.messages import Message
from hubbub.domain.notices import MessageDelivery, Notice
from hubbub.protocols.json.events import notice_json
from hubbub.protocols.json.fast import message_json

MAX_ID_CHARS = 8192
"""Browsers send the id back in a header, whose size servers limit."""

_ENTRY = re.compile(r"([\w-]*)\.([\w-]*)\.([0-9]{1,18})(?:\.([\w-]*)\.([0-9]{1,18}))?", re.ASCII)


_SINCE = re.compile(r"@([0-9]{1,18})~?", re.ASCII)


class StreamPosition(NamedTuple):
    """A stream's position in a channel, and the version of the channel's document, if it has
    one."""

    epoch: str
    serial: int
    document_epoch: str = ""
    document_version: int | None = None


def encode_message(message: Message, event_id: str | None) -> bytes:
    """Omits the id if the message has no position."""
    if event_id is None:
        return b"data: %b\n\n" % message_json(message)
    return b"id: %b\ndata: %b\n\n" % (event_id.encode(), message_json(message))


def encode(notice: Notice, event_id: str | None = None) -> bytes:
    """The event is named after the notice, so that clients can listen selectively; messages keep
    the default name. `event_id` is set if the notice advances the position."""
    event, payload = notice_json(notice)
    lines = b"" if event_id is None else b"id: %b\n" % event_id.encode()
    if not isinstance(notice, MessageDelivery):
        lines += b"event: %b\n" % event.encode()
    return lines + b"data: %b\n\n" % payload


def heartbeat() -> bytes:
    """A comment, which prevents proxies from closing the stream."""
    return b":\n\n"


def retry(milliseconds: int) -> bytes:
    """Sets the client's delay before it reconnects."""
    return b"retry: %d\n\n" % milliseconds


def encode_positions(positions: Mapping[str, StreamPosition]) -> str:
    """Raises `TooLarge` if the id would not fit into a header: the stream has too many channels."""
    event_id = "~".join([_entry(channel, position) for channel, position in positions.items()])
    if len(event_id) > MAX_ID_CHARS:
        raise TooLarge(
            f"the positions of {len(positions)} channels take {len(event_id)} characters; "
            f"an event id has at most {MAX_ID_CHARS}"
        )
    return event_id


def _entry(channel: str, position: StreamPosition) -> str:
    epoch, serial, document_epoch, version = position
    entry = _names(channel, epoch) + str(serial)
    return entry if version is None else f"{entry}.{_to_base64(document_epoch)}.{version}"


def with_since(since: int, positions: str) -> str:
    """The id of a stream with patterns."""
    return f"@{since}~{positions}" if positions else f"@{since}"


def split_since(event_id: str) -> tuple[int | None, str]:
    """The start time of a stream with patterns (None for others), and the positions."""
    found = _SINCE.match(event_id)
    return (int(found[1]), event_id[found.end() :]) if found else (None, event_id)


def decode_positions(event_id: str) -> dict[str, StreamPosition]:
    if len(event_id) > MAX_ID_CHARS:
        raise Malformed(f"the event id is longer than {MAX_ID_CHARS} characters")
    positions: dict[str, StreamPosition] = {}
    for entry in event_id.split("~") if event_id else ():
        found = _ENTRY.fullmatch(entry)
        if not found:
            raise _not_an_id(event_id)
        channel, epoch, serial, document_epoch, version = found.groups()
        positions[_from_base64(channel, event_id)] = StreamPosition(
            _from_base64(epoch, event_id),
            int(serial),
            _from_base64(document_epoch or "", event_id),
            None if version is None else int(version),
        )
    return positions


@lru_cache(maxsize=8192)
def _names(channel: str, epoch: str) -> str:
    return f"{_to_base64(channel)}.{_to_base64(epoch)}."


def _to_base64(text: str) -> str:
    return urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def _from_base64(text: str, event_id: str) -> str:
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    except ValueError:
        raise _not_an_id(event_id) from None


def _not_an_id(event_id: str) -> Malformed:
    return Malformed(f"the event id {event_id[:40]!r} is not one that this hub gave")
