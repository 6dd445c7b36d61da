"""Threads: the messages of a stored channel in one conversation."""

from __future__ import annotations

from typing import Final

import msgspec

from hubbub.domain.asking import ChannelRequest
from hubbub.domain.errors import NotFound
from hubbub.domain.messages import Message, is_json

DEFAULT_PAGE: Final = 100
MAX_PAGE: Final = 1000
"""The most threads in one page."""
MAX_STATUS: Final = 256
"""The most characters of a status."""
_STATE_EVENT: Final = "hconvstate"


class Thread(msgspec.Struct, frozen=True):
    """A conversation with stored messages. `first` is the serial of the oldest one, `updated_at`
    (ms since 1970) the publication time of the newest, `status` the status in the newest
    `hConvState` message."""

    conversation_id: str
    first: Message
    messages: int
    last_serial: int
    updated_at: int
    status: str | None = None


class ThreadsFound(msgspec.Struct, frozen=True):
    """`more`: further threads follow the last one of the page."""

    threads: tuple[Thread, ...]
    more: bool
    epoch: str


class ThreadsQuery(ChannelRequest[ThreadsFound], frozen=True):
    """A page of a channel's threads in the order of their first messages: threads whose first
    message has a serial greater than `after`; with `status`, only threads with this status."""

    travels_in = ("threads", "query")

    limit: int = DEFAULT_PAGE
    after: int = 0
    status: str | None = None


class _State(msgspec.Struct):
    status: str | None = None


_decoder = msgspec.json.Decoder(_State)


def is_state(event: str) -> bool:
    """Whether a message with this event sets the status of its conversation."""
    return event.lower() == _STATE_EVENT


def status_of(payload: bytes, content_type: str) -> str | None:
    """The `status` in the payload of an `is_state` message; None unless it is a text of 1 to
    `MAX_STATUS` characters."""
    if not is_json(content_type):
        return None
    try:
        status = _decoder.decode(payload).status
    except (msgspec.DecodeError, RecursionError):
        return None
    return status if status and len(status) <= MAX_STATUS else None


def no_threads(channel: str) -> NotFound:
    return NotFound(f"{channel!r} does not store and has no threads; its rules must switch it on")
