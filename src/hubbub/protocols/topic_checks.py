"""What requests about topics must look like, whichever way they came in. Whether what they ask for
can be done is checked where it is done."""

from __future__ import annotations

from typing import Literal

from hubbub.domain.errors import Malformed
from hubbub.domain.names import MAX_NAME_CHARS
from hubbub.domain.requests import TopicAck, TopicGet
from hubbub.domain.topics import MAX_BATCH, MAX_WAIT_SECONDS
from hubbub.protocols.envelopes import check_batch, parse_serial

_STARTS: dict[str, Literal["new", "first"]] = {"new": "new", "first": "first"}


def parse_start(text: str, where: str) -> Literal["new", "first"] | int:
    """`where` names the event and field in the error."""
    if text in _STARTS:
        return _STARTS[text]
    if text.isascii() and text.isdigit():
        return parse_serial(text, where)
    raise Malformed(f"{where} is {text[:20]!r}; expected 'new', 'first' or a serial, like '42'")


def check_get(request: TopicGet, where: str = "TopicGet") -> TopicGet:
    if not 1 <= request.limit <= MAX_BATCH:
        raise Malformed(f"{where}: `limit` is {request.limit}; give 1 to {MAX_BATCH}")
    if not 0 <= request.wait_seconds <= MAX_WAIT_SECONDS:
        raise Malformed(
            f"{where}: `wait` is {request.wait_seconds:g}; give 0 to {MAX_WAIT_SECONDS:g} seconds"
        )
    _check_consumer(request.consumer, where)
    if request.topic is None and request != TopicGet(name=request.name, req_id=request.req_id):
        raise Malformed(
            f"{where}: `limit`, `wait`, `consumer`, `ackUpTo` and `after` need a `topic`; "
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
    """It is kept for every message that the consumer holds."""
    if len(consumer) > MAX_NAME_CHARS:
        raise Malformed(
            f"{where}: `consumer` has {len(consumer)} characters; "
            f"at most {MAX_NAME_CHARS} are allowed"
        )
