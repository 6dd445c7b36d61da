"""Random messages and filters, over few names and values so that they meet often."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec

from hubbub.domain.filters.definition import FilterDefinition
from hubbub.domain.messages import JSON, TEXT, Attributes, Message

NOW = 1_000_000
_VALUES: list[Any] = [
    0, 1, 2, 1.0, 1.5, -3, True, False, None, "", "a", "b", "1",
    [], [1], [1, 2], [True], {}, {"x": 1}, {"x": True}, {"x": 1, "y": "a"}, [{"x": 1}],
]  # fmt: skip
_NAMES = ["a", "b", "c"]
_PATHS = [
    *[f"payload.{name}" for name in _NAMES],
    "payload",
    "payload.a.x",
    "payload.b.0",
    "payload.b.0.x",
    "event",
    "type",
    "publisher",
    "priority",
    "convid",
    "conversationID",
    "headers.a",
    "location.city",
    "channel",
]


def random_message(random: Random, serial: int = 0) -> Message:
    content_type = JSON if random.random() < 0.9 else random.choice([TEXT, "image/png"])
    payload: Any = {name: random.choice(_VALUES) for name in _NAMES if random.random() < 0.7}
    if random.random() < 0.1:
        payload = random.choice(_VALUES)
    return Message(
        f"m{serial}",
        "demo",
        "news",
        random.choice(["a", "b"]),
        msgspec.json.encode(payload) if content_type == JSON else b"a",
        content_type,
        NOW - random.randrange(1000),
        serial,
        publisher=random.choice([None, "a", "b"]),
        attributes=random_attributes(random) if random.random() < 0.8 else None,
    )


def random_attributes(random: Random) -> Attributes:
    def maybe(value: Any) -> Any:
        return value if random.random() < 0.5 else None

    return Attributes(
        priority=maybe(random.randrange(6)),
        conversation_id=maybe(random.choice("ab")),
        relevant_until=maybe(NOW + random.randrange(-2, 3)),
        headers=maybe({"a": random.choice(_VALUES)}),
        location=maybe(_random_location(random)),
    )


def _random_location(random: Random) -> dict[str, Any]:
    place: dict[str, Any] = {"lat": random.uniform(-90, 90), "lng": random.uniform(-180, 180)}
    if random.random() < 0.2:
        place = {"pos": place}
    if random.random() < 0.1:
        place["lat"] = random.choice(["1", True, None])
    if random.random() < 0.3:
        place["city"] = random.choice("ab")
    return place


def random_filter(random: Random, name: str = "f") -> FilterDefinition:
    template = _random_template(random) if random.random() < 0.3 else None
    radius = None
    if random.random() < 0.15:
        centre = {"lat": random.uniform(-90, 90), "lng": random.uniform(-180, 180)}
        template = (template or {}) | {
            "location": {**(template or {}).get("location", {}), **centre}
        }
        radius = random.uniform(1e5, 1.5e7)
    relevant = True if random.random() < 0.1 else None
    condition = None
    if random.random() < 0.8 or (template is None and relevant is None):
        condition = random_condition(random, 3)
    return FilterDefinition(name, None, template, radius, relevant, condition)


def _random_template(random: Random) -> dict[str, Any]:
    parts = {
        "payload": {random.choice(_NAMES): random.choice(_VALUES)},
        "event": random.choice("ab"),
        "headers": {"a": random.choice(_VALUES)},
        "priority": random.randrange(6),
        "publisher": random.choice("ab"),
        "location": {"city": random.choice("ab")},
    }
    return {name: parts[name] for name in random.sample(sorted(parts), random.choice([1, 1, 2]))}


def random_condition(random: Random, depth: int) -> dict[str, Any]:
    names = random.sample(_LEAVES + (_COMBINED if depth > 1 else []), random.choice([1, 1, 1, 2]))
    return {name: _random_operand(random, name, depth) for name in names}


_COMBINED = ["and", "or", "nor", "not"]
_LEAVES = ["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin", "relevant", "geo", "boolean"]


def _random_operand(random: Random, name: str, depth: int) -> Any:
    paths = random.sample(_PATHS, random.choice([1, 1, 2]))
    if name in ("eq", "ne"):
        return {path: random.choice(_VALUES) for path in paths}
    if name in ("in", "nin"):
        return {path: random.sample(_VALUES, random.randrange(5)) for path in paths}
    if name in ("relevant", "boolean"):
        return random.random() < 0.5
    if name == "geo":
        return {
            "lat": random.uniform(-90, 90),
            "lng": random.uniform(-180, 180),
            "radius": random.uniform(1e5, 2.5e7),
        }
    if name == "not":
        return random_condition(random, depth - 1)
    if name in _COMBINED:
        return [random_condition(random, depth - 1) for _ in range(random.choice([2, 2, 3]))]
    return {path: random.choice([-1, 0, 1, 1.5, 3]) for path in paths}
