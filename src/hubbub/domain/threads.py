"""Threads: the messages of a stored channel that share a conversation."""

from __future__ import annotations

from typing import Final

import msgspec

from hubbub.domain.errors import NotFound
from hubbub.domain.messages import Message, is_json

DEFAULT_PAGE: Final = 100
MAX_PAGE: Final = 1000
"""Threads in one page."""
MAX_STATUS: Final = 256
"""Characters of a status."""
_STATE_EVENT: Final = "hconvstate"


class Thread(msgspec.Struct, frozen=True):
    """A conversation as far as its messages are still stored. `first` is the oldest of them,
    `updated_at` (ms since 1970) when the newest was published, `status` what the newest message
    with the event `hConvState` says."""

    conversation_id: str
    first: Message
    messages: int
    last_serial: int
    updated_at: int
    status: str | None = None


class ThreadsQuery(msgspec.Struct, frozen=True):
    """A page of a channel's threads in the order of their first messages: those whose first message
    has a serial greater than `after`; with `status`, only those in this status."""

    hub: str
    channel: str
    limit: int = DEFAULT_PAGE
    after: int = 0
    status: str | None = None


class ThreadsFound(msgspec.Struct, frozen=True):
    """`more`: further threads begin behind the last one of the page."""

    threads: tuple[Thread, ...]
    more: bool
    epoch: str


class _State(msgspec.Struct):
    status: str | None = None


_decoder = msgspec.json.Decoder(_State)


def is_state(event: str) -> bool:
    """Whether a message of this event sets the status of its conversation."""
    return event.lower() == _STATE_EVENT


def status_of(payload: bytes, content_type: str) -> str | None:
    """The `status` in the payload of a message that `is_state`; None where the payload has no text
    of 1 to `MAX_STATUS` characters there."""
    if not is_json(content_type):
        return None
    try:
        status = _decoder.decode(payload).status
    except (msgspec.DecodeError, RecursionError):
        return None
    return status if status and len(status) <= MAX_STATUS else None


def no_threads(channel: str) -> NotFound:
    return NotFound(f"{channel!r} does not store and has no threads; its rules must switch it on")
