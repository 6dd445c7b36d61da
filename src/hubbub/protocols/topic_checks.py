"""What requests about topics must look like, whichever way they came in."""

from __future__ import annotations

from typing import Literal

from hubbub.domain.errors import Malformed
from hubbub.domain.names import check_name
from hubbub.domain.requests import Producer, TopicAck, TopicGet
from hubbub.domain.topics import MAX_BATCH, MAX_WAIT_SECONDS, SubscriptionOptions
from hubbub.protocols.envelopes import check_batch, parse_serial

MAX_LEASE_SECONDS = 86_400.0
_STARTS: dict[str, Literal["new", "first"]] = {"new": "new", "first": "first"}


def parse_start(text: str, where: str) -> Literal["new", "first"] | int:
    """`where` names the event and field in the error."""
    if text in _STARTS:
        return _STARTS[text]
    if text.isascii() and text.isdigit():
        return parse_serial(text, where)
    raise Malformed(f"{where} is {text[:20]!r}; expected 'new', 'first' or a serial, like '42'")


def check_options(options: SubscriptionOptions, where: str) -> SubscriptionOptions:
    if not 0 < options.lease_seconds <= MAX_LEASE_SECONDS:
        raise Malformed(
            f"{where}: `leaseSeconds` is {options.lease_seconds:g}; "
            f"give more than 0 and at most {MAX_LEASE_SECONDS:g}"
        )
    if options.max_unacknowledged < 1:
        raise Malformed(
            f"{where}: `maxUnacknowledged` is {options.max_unacknowledged}; give at least 1"
        )
    if options.max_deliveries < 0:
        raise Malformed(
            f"{where}: `maxDeliveries` is {options.max_deliveries}; give 0 (no end) or more"
        )
    if options.dead_letters is not None:
        check_name(options.dead_letters, "channel")
    return options


def check_producer(producer: Producer, where: str) -> Producer:
    check_name(producer.id, "producer")
    if producer.sequence < 1:
        raise Malformed(f"{where}: `sequence` is 0; the first put of a producer is 1")
    return producer


def check_get(request: TopicGet, where: str = "TopicGet") -> TopicGet:
    if not 1 <= request.limit <= MAX_BATCH:
        raise Malformed(f"{where}: `limit` is {request.limit}; give 1 to {MAX_BATCH}")
    if not 0 <= request.wait_seconds <= MAX_WAIT_SECONDS:
        raise Malformed(
            f"{where}: `wait` is {request.wait_seconds:g}; give 0 to {MAX_WAIT_SECONDS:g} seconds"
        )
    if request.topic is None and request != TopicGet(name=request.name, req_id=request.req_id):
        raise Malformed(
            f"{where}: `limit`, `wait`, `consumer` and `ackUpTo` need a `topic`; "
            "without one, each topic answers one message"
        )
    return request


def check_ack(request: TopicAck, where: str = "TopicAck") -> TopicAck:
    if bool(request.serials) == (request.up_to is not None):
        raise Malformed(f"{where}: give either `serials`, not empty, or `upTo`")
    check_batch(where, len(request.serials))
    return request
