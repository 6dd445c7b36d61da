"""What both encodings of the protocol agree on: its events, limits and errors."""

from __future__ import annotations

import re

from hubbub.domain import errors
from hubbub.domain.errors import HubbubError, InvalidName, Malformed, TooLarge, UnknownEvent
from hubbub.domain.requests import Authenticate, History

MAX_ENVELOPES = 1_000
"""Per frame."""
MAX_ITEMS = 1_000
"""Per batch: channels of a Subscribe, items of a Publish, positions of a restore."""
MAX_EVENT_NAME_CHARS = 255
MAX_SERIAL = 10**18 - 1
"""Eighteen digits: fits every store's integer, and needs no check of the last digit."""

HUB_ONLY_EVENTS = frozenset(
    {
        "Error",
        "Disconnect",
        "SessionInfo",
        "SessionRestored",
        "Ack",
        "ChannelReset",
        "Join",
        "Leave",
        "Occupancy",
        "TopicSubscription",
        "TopicMessages",
        "TopicAcked",
        "ProducerOpened",
        "TopicSubscriptions",
    }
)

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_SERIAL = re.compile("[0-9]{1,18}")
_ERRORS = errors.catalogue()


def unknown_event(event: str) -> UnknownEvent:
    if event in HUB_ONLY_EVENTS:
        return UnknownEvent(f"{event} comes from the hub; a client cannot send it")
    return UnknownEvent(f"the protocol has no event {event[:40]!r}")


def check_frame(envelopes: int) -> None:
    if envelopes > MAX_ENVELOPES:
        raise TooLarge(f"the frame has {envelopes} envelopes; at most {MAX_ENVELOPES} are allowed")


def check_batch(event: str, items: int) -> None:
    if items > MAX_ITEMS:
        raise TooLarge(f"{event}: the batch has {items} items; at most {MAX_ITEMS} are allowed")


def check_event_name(name: str) -> str:
    """The publisher's own name for what a message is; it may be empty."""
    if len(name) > MAX_EVENT_NAME_CHARS:
        raise InvalidName(
            f"Publish: the event name {name[:20]!r}… has {len(name)} characters; "
            f"at most {MAX_EVENT_NAME_CHARS} are allowed"
        )
    # Every control character is unprintable, and isprintable is the faster check.
    if not name.isprintable() and _CONTROL.search(name):
        raise InvalidName(f"Publish: the event name {name!r} contains a control character")
    return name


def check_proof(request: Authenticate) -> Authenticate:
    if bool(request.token) == bool(request.credentials):
        raise Malformed("Auth: give either `token` or `credentials`, not empty")
    return request


def check_bounds(request: History) -> History:
    bounds = (request.after, request.before, request.after_time, request.before_time)
    if sum(bound is not None for bound in bounds) > 1:
        raise Malformed(
            "History: give at most one of `after`, `before`, `afterTime` and `beforeTime`"
        )
    if request.limit < 0:
        raise Malformed(f"History: `limit` is {request.limit}; it cannot be negative")
    return request


def parse_serial(text: str, where: str) -> int:
    """`where` names the event and field in the error."""
    if not _SERIAL.fullmatch(text):
        raise Malformed(f"{where} is {text[:20]!r}; expected a serial, like '42'")
    return int(text)


def error_from_wire(code: str, message: str) -> HubbubError:
    """The error as the hub raised it. A hub that is newer than this code may send a code that is
    not in the catalogue: that is noted on a plain HubbubError."""
    kind = _ERRORS.get(code)
    if kind is not None:
        return kind(message)
    error = HubbubError(message)
    error.add_note(f"the hub's code for it is {code!r}, which this version does not know")
    return error
