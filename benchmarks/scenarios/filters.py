"""Filters: what one evaluation takes, on one core."""

from __future__ import annotations

import time
from random import Random
from statistics import median
from typing import Any

from benchmarks.findings import Effort, Finding, spread
from hubbub.domain.filters.definition import FilterDefinition
from hubbub.domain.filters.filters import compile_filter
from hubbub.domain.filters.view import MessageView
from hubbub.domain.messages import JSON, Attributes, Message

_POSITIONS = 10_000
_REACH_PER_SECOND = 300_000
_REACH_MICROSECONDS = 12.0
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
    ]


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
