"""Filters: what one evaluation takes, on one core, and what fan-out through them costs."""

from __future__ import annotations

import time
from random import Random
from statistics import median
from typing import Any

from benchmarks.findings import Effort, Finding, spread
from benchmarks.hub import Hubbub, hubbub
from benchmarks.load.publishers import Steady
from benchmarks.load.run import fan_out
from benchmarks.load.stamp import DIGIT, INDEX, json_payload
from benchmarks.load.subscribers import Audience
from benchmarks.load.wire import Route
from hubbub.domain.filters.definition import FilterDefinition
from hubbub.domain.filters.filters import compile_filter
from hubbub.domain.filters.view import MessageView
from hubbub.domain.messages import JSON, Attributes, Message

_POSITIONS = 10_000
_REACH_PER_SECOND = 300_000
_REACH_MICROSECONDS = 12.0
_SUBSCRIBERS = 1_000
_SIZE = 200
_REACH_FAN_OUT = 1.5
_HALVES = [
    {"condition": {"in": {"payload.d": [(first + each) % 10 for each in range(5)]}}}
    for first in range(10)
]
"""Ten filters that each pass half of the messages."""
_REFUSING: dict[str, Any] = {
    "condition": {
        "gte": {"payload.d": 0},
        "lt": {"payload.d": 10},
        "eq": {"payload.i": INDEX.decode()},
    }
}
"""Of each subscriber its own: three comparisons, of which the last one refuses."""
_THREE: dict[str, Any] = {
    "lt": {"payload.price": 10},
    "eq": {"payload.kind": "a"},
    "in": {"payload.size": [1, 2, 3]},
}


def filters(effort: Effort) -> list[Finding]:
    """A radius over many positions; three conditions, with decoding the payload each time."""
    random = Random(1)
    messages = [_message(random, number) for number in range(_POSITIONS)]
    near = FilterDefinition(
        "near", template={"location": {"lat": 48.0, "lng": 2.0}}, radius=50_000.0
    )
    rates = [1 / _seconds(near, messages) for _ in range(max(3, effort.rounds))]
    three = FilterDefinition("three", condition=_THREE)
    costs = [_seconds(three, messages) * 1e6 for _ in range(max(3, effort.rounds))]
    return [
        Finding(
            f"a radius over {_POSITIONS:,} positions: evaluations per second",
            f"at least {_REACH_PER_SECOND:,}",
            spread(rates),
            median(rates) >= _REACH_PER_SECOND,
            {"rates": rates},
        ),
        Finding(
            "a filter of three conditions, payload decoded each time: µs for each evaluation",
            f"at most {_REACH_MICROSECONDS:g}",
            spread(costs),
            median(costs) <= _REACH_MICROSECONDS,
            {"microseconds": costs},
        ),
        *_fan_out(effort),
    ]


def _fan_out(effort: Effort) -> list[Finding]:
    """In turns on one hub."""
    subscribers = _SUBSCRIBERS
    ratios, microseconds = [], []
    for _ in range(effort.rounds):
        with hubbub() as server:
            plain, _ = _cpu(server, effort, server.subscription("bench"), subscribers, 500)
            halves = server.filtering("bench", _HALVES)
            half, _ = _cpu(server, effort, halves, subscribers, 500)
            ratios.append(half / plain)
            each = server.filtering("bench", [_REFUSING])
            cost, published = _cpu(server, effort, each, subscribers, 50)
            microseconds.append(cost * 1e6 / (published * subscribers))
    return [
        Finding(
            f"fan-out at 500/s to {subscribers:,} with 10 different filters that pass half: CPU"
            " against no filters",
            f"at most {_REACH_FAN_OUT:g} x",
            spread(ratios, " x"),
            median(ratios) <= _REACH_FAN_OUT,
            {"ratios": ratios},
        ),
        Finding(
            f"{subscribers:,} subscribers with as many different filters of three conditions: µs of"
            " CPU for each evaluation, all that a message costs included",
            f"at most {_REACH_MICROSECONDS:g}",
            spread(microseconds),
            median(microseconds) <= _REACH_MICROSECONDS,
            {"microseconds": microseconds},
        ),
    ]


def _cpu(
    server: Hubbub, effort: Effort, route: Route, subscribers: int, rate: int
) -> tuple[float, int]:
    """CPU seconds of the server, and how many messages were published meanwhile."""
    numbered = b'{"d":%b,"i":-1,' % DIGIT + json_payload(_SIZE - 14)[1:]
    publication = server.publication_of("bench", numbered)
    with fan_out(Audience(route, subscribers), publication, Steady(rate)) as load:
        load.warm(effort.warm_seconds)
        before = server.process.cpu_seconds()
        load.begin()
        time.sleep(effort.seconds)
        used = server.process.cpu_seconds() - before
        return used, load.end().published


def _message(random: Random, number: int) -> Message:
    place = {"lat": 48 + random.uniform(-1, 1), "lng": 2 + random.uniform(-1, 1)}
    payload = b'{"price": %d, "kind": "a", "size": 2}' % random.randrange(20)
    return Message(
        str(number), "h", "c", "e", payload, JSON, 0, attributes=Attributes(location=place)
    )


def _seconds(definition: FilterDefinition, messages: list[Message]) -> float:
    """Of one evaluation."""
    passes = compile_filter(definition).passes
    began = time.process_time()
    for message in messages:
        passes(MessageView(message, 0))
    return (time.process_time() - began) / len(messages)
