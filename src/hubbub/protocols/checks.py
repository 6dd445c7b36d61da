"""Checks of clients' requests, shared by all encodings: limits, names, and combinations of fields.

Whether a request can be fulfilled is checked where it is processed.
"""

from __future__ import annotations

import math
import re
from typing import Literal

from hubbub.domain import errors
from hubbub.domain.errors import HubbubError, InvalidName, Malformed, TooLarge
from hubbub.domain.names import MAX_NAME_CHARS
from hubbub.domain.requests import (
    Authenticate,
    Call,
    Enqueue,
    History,
    PublishItem,
    Restore,
    Threads,
    TopicAck,
    TopicGet,
)
from hubbub.domain.threads import MAX_PAGE
from hubbub.domain.topics import MAX_BATCH, MAX_WAIT_SECONDS

MAX_ENVELOPES = 1_000
"""The most envelopes per frame."""
MAX_ITEMS = 1_000
"""The most items per batch: channels of a Subscribe, items of a Publish, positions of a restore."""
MAX_EVENT_NAME_CHARS = 255
MAX_SERIAL = 10**18 - 1
"""Eighteen digits fit every store's integer, and the last digit needs no check."""

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_SERIAL = re.compile("[0-9]{1,18}")
_ERRORS = errors.catalogue()
Start = Literal["new", "first"] | int
_STARTS: dict[str, Literal["new", "first"]] = {"new": "new", "first": "first"}


def check_frame(envelopes: int) -> None:
    if envelopes > MAX_ENVELOPES:
        raise TooLarge(f"the frame has {envelopes} envelopes; at most {MAX_ENVELOPES} are allowed")


def check_batch(event: str, items: int) -> None:
    if items > MAX_ITEMS:
        raise TooLarge(f"{event}: the batch has {items} items; at most {MAX_ITEMS} are allowed")


def check_event_name(name: str) -> str:
    """Checks the publisher's event name, which may be empty."""
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


def check_restore(request: Restore) -> Restore:
    if not request.restore_key:
        raise Malformed("SessionRestore: `restoreKey` is empty; give the one that the hub sent")
    return request


def check_bounds(request: History) -> History:
    bounds = (request.after, request.before, request.after_time, request.before_time)
    if sum(bound is not None for bound in bounds) > 1:
        raise Malformed(
            "History: give at most one of `after`, `before`, `afterTime` and `beforeTime`"
        )
    if request.limit < 0:
        raise Malformed(f"History: `limit` is {request.limit}; it cannot be negative")
    if request.conversation_id is not None:
        check_conversation_bounds(request)
    return request


def check_conversation_bounds(request: History) -> None:
    if request.after_time is not None or request.before_time is not None:
        raise Malformed(
            "History: a conversation is read by serials; give `after` or `before` beside"
            " `conversationID`"
        )


def check_threads(request: Threads) -> Threads:
    if not 0 <= request.limit <= MAX_PAGE:
        raise Malformed(f"Threads: `limit` is {request.limit}; give 1 to {MAX_PAGE}, or none")
    return request


def parse_serial(text: str, where: str) -> int:
    """`where` names the event and field in the error."""
    if not _SERIAL.fullmatch(text):
        raise Malformed(f"{where} is {text[:20]!r}; expected a serial, like '42'")
    return int(text)


def parse_start(text: str, where: str) -> Start:
    """`where` names the event and field in the error."""
    if text in _STARTS:
        return _STARTS[text]
    if text.isascii() and text.isdigit():
        return parse_serial(text, where)
    raise Malformed(f"{where} is {text[:20]!r}; expected 'new', 'first' or a serial, like '42'")


def check_get(request: TopicGet) -> TopicGet:
    if not 1 <= request.limit <= MAX_BATCH:
        raise Malformed(f"TopicGet: `limit` is {request.limit}; give 1 to {MAX_BATCH}")
    if not 0 <= request.wait_seconds <= MAX_WAIT_SECONDS:
        raise Malformed(
            f"TopicGet: `wait` is {request.wait_seconds:g}; give 0 to {MAX_WAIT_SECONDS:g} seconds"
        )
    _check_consumer(request.consumer, "TopicGet")
    if request.topic is None and request != TopicGet(name=request.name, req_id=request.req_id):
        raise Malformed(
            "TopicGet: `limit`, `wait`, `consumer`, `ackUpTo` and `after` need a `topic`; "
            "without one, each topic answers one message"
        )
    return request


def check_ack(request: TopicAck, where: str = "TopicAck") -> TopicAck:
    if bool(request.serials) == (request.up_to is not None):
        raise Malformed(f"{where}: give either `serials`, not empty, or `upTo`")
    check_batch(where, len(request.serials))
    _check_consumer(request.consumer, where)
    return request


def _check_consumer(consumer: str, where: str) -> None:
    """Bounded, since it is stored with every leased message."""
    if len(consumer) > MAX_NAME_CHARS:
        raise Malformed(
            f"{where}: `consumer` has {len(consumer)} characters; "
            f"at most {MAX_NAME_CHARS} are allowed"
        )


def check_call(request: Call) -> Call:
    seconds = request.timeout_seconds
    if not math.isfinite(seconds) or seconds < 0:
        raise Malformed(f"RPC: `timeout` is {seconds}; expected seconds, or none")
    return request


def check_enqueue(request: Enqueue) -> Enqueue:
    check_event_name(request.event)
    return request


def check_item(item: PublishItem) -> PublishItem:
    check_event_name(item.event)
    return item


def error_from_wire(code: str, message: str) -> HubbubError:
    """The error that the hub sent. A newer hub may send an unknown code, which becomes a plain
    HubbubError with that code."""
    kind = _ERRORS.get(code)
    if kind is not None:
        return kind(message)
    error = HubbubError(message)
    error.add_note(f"the hub's code for it is {code!r}, which this version does not know")
    return error
