"""Filters interpreted word by word, from the definition and the whole message as one JSON object:
what the compiled ones are compared with."""

from __future__ import annotations

import json
from math import asin, cos, radians, sin, sqrt
from typing import Any

from hubbub.domain.filters.definition import FilterDefinition
from hubbub.domain.messages import Message

NOTHING = object()


def as_object(message: Message) -> dict[str, Any]:
    found: dict[str, Any] = {
        "msgID": message.id,
        "channel": message.channel,
        "event": message.event,
        "contentType": message.content_type,
        "ts": message.published_at,
    }
    if message.publisher is not None:
        found["publisher"] = message.publisher
    if message.content_type == "application/json":
        found["payload"] = json.loads(message.payload)
    elif message.content_type.startswith("text/"):
        found["payload"] = message.payload.decode()
    if message.attributes is not None:
        attributes = message.attributes
        rarer = {
            "author": attributes.author,
            "conversationID": attributes.conversation_id,
            "priority": attributes.priority,
            "relevantUntil": attributes.relevant_until,
            "location": attributes.location,
            "headers": attributes.headers,
        }
        found |= {name: value for name, value in rarer.items() if value is not None}
    for alias, name in (("type", "event"), ("convid", "conversationID"), ("chid", "channel")):
        if name in found:
            found[alias] = found[name]
    return found


def passes(definition: FilterDefinition, message: Message, now: int) -> bool:
    whole = as_object(message)
    template, radius = definition.template, definition.radius
    if template is not None:
        for name, wanted in template.items():
            if name == "location":
                wanted = {k: v for k, v in wanted.items() if k not in ("lat", "lng")}
                if not wanted:
                    continue
            if not _fits(wanted, whole.get(name, NOTHING)):
                return False
    if radius is not None:
        assert template is not None
        centre = template["location"]
        if not _near(whole, centre["lat"], centre["lng"], radius):
            return False
    if definition.relevant and not whole.get("relevantUntil", -1) >= now:
        return False
    return definition.condition is None or holds(definition.condition, whole, now)


def holds(condition: dict[str, Any], whole: dict[str, Any], now: int) -> bool:
    return all(_operator(name, operand, whole, now) for name, operand in condition.items())


def _operator(name: str, operand: Any, whole: dict[str, Any], now: int) -> bool:
    if name == "boolean":
        return bool(operand)
    if name == "relevant":
        until = whole.get("relevantUntil")
        return until is not None and bool((until >= now) == operand)
    if name == "geo":
        return _near(whole, operand["lat"], operand["lng"], operand["radius"])
    if name == "not":
        return not holds(operand, whole, now)
    if name in ("and", "or", "nor"):
        answers = [holds(each, whole, now) for each in operand]
        return {"and": all(answers), "or": any(answers), "nor": not any(answers)}[name]
    return all(_compare(name, _find(whole, path), wanted) for path, wanted in operand.items())


def _compare(name: str, value: Any, wanted: Any) -> bool:
    if value is NOTHING:
        return False
    if name in ("eq", "ne"):
        return (_text(value) == _text(wanted)) == (name == "eq")
    if name in ("in", "nin"):
        return (_text(value) in [_text(each) for each in wanted]) == (name == "in")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    orders: dict[str, bool] = {
        "gt": value > wanted,
        "gte": value >= wanted,
        "lt": value < wanted,
        "lte": value <= wanted,
    }
    return orders[name]


def _text(value: Any) -> str:
    """Equal for equal JSON values."""
    if isinstance(value, float) and value == int(value):
        value = int(value)
    if isinstance(value, list):
        return "[" + ",".join(map(_text, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{_text(value[k])}" for k in sorted(value)) + "}"
    return json.dumps(value)


def _find(value: Any, path: str) -> Any:
    for key in path.split("."):
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdigit() and int(key) < len(value):
            value = value[int(key)]
        else:
            return NOTHING
    return value


def _fits(wanted: Any, value: Any) -> bool:
    if value is NOTHING:
        return False
    if isinstance(wanted, dict):
        return isinstance(value, dict) and all(
            _fits(each, value.get(name, NOTHING)) for name, each in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(value, list)
            and len(wanted) == len(value)
            and all(_fits(a, b) for a, b in zip(wanted, value, strict=True))
        )
    return _text(wanted) == _text(value)


def distance(lat: float, lng: float, other_lat: float, other_lng: float) -> float:
    a, b = radians(lat), radians(other_lat)
    half = sin((b - a) / 2) ** 2
    half += cos(a) * cos(b) * sin(radians(other_lng - lng) / 2) ** 2
    return 2 * 6_371_000 * asin(min(1.0, sqrt(half)))


def _near(whole: dict[str, Any], lat: float, lng: float, radius: float) -> bool:
    place = whole.get("location", {})
    for each in (place, place.get("pos")):
        if isinstance(each, dict):
            there = [each.get("lat"), each.get("lng")]
            if all(isinstance(n, int | float) and not isinstance(n, bool) for n in there):
                return distance(lat, lng, *there) <= radius * (1 + 1e-12)  # type: ignore[arg-type]
    return False
