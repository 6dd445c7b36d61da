"""Distances on the globe, for filters with a radius."""

from __future__ import annotations

from math import cos, degrees, pi, radians, sin
from typing import Any, Final

from hubbub.domain.filters.names import location
from hubbub.domain.filters.values import checked_number, invalid
from hubbub.domain.filters.view import MessageView, Predicate

EARTH_METRES: Final = 6_371_000.0
_ROUNDING: Final = 1 + 1e-12
"""Tolerance of less than 10 micrometres: a point at exactly the radius is inside, however the
distance was computed."""


def coordinates(place: Any) -> tuple[float, float] | None:
    """Latitude and longitude of a message's location, or of its `pos`; None if it has none."""
    if type(place) is not dict:
        return None
    return _pair(place) or _pair(place.get("pos"))


def _pair(place: Any) -> tuple[float, float] | None:
    if type(place) is not dict:
        return None
    lat, lng = place.get("lat"), place.get("lng")
    return (lat, lng) if type(lat) in _NUMBERS and type(lng) in _NUMBERS else None  # type: ignore


_NUMBERS: Final = frozenset((int, float))


def within(lat: float, lng: float, metres: float) -> Predicate:
    """Whether a message's location is within the distance. Avoids the arc sine and the square root
    of the distance itself, and most positions are already excluded by their latitude."""
    if metres >= pi * EARTH_METRES:
        return lambda view: coordinates(location(view)) is not None
    here_cos = cos(radians(lat))
    most = sin(metres / (2 * EARTH_METRES)) ** 2 * _ROUNDING
    most_degrees = degrees(metres / EARTH_METRES) * _ROUNDING

    def test(view: MessageView) -> bool:
        attributes = view.message.attributes
        found = None if attributes is None else coordinates(attributes.location)
        if found is None:
            return False
        north = found[0] - lat
        if not -most_degrees <= north <= most_degrees:
            return False
        up = sin(north * _HALF_DEGREE)
        across = sin((found[1] - lng) * _HALF_DEGREE)
        return up * up + here_cos * cos(radians(found[0])) * across * across <= most

    return test


_HALF_DEGREE: Final = pi / 360
"""Half a degree in radians."""


def checked_circle(lat: object, lng: object, metres: object, at: tuple[str, str, str]) -> Predicate:
    """Checks centre and radius; `at` holds their positions in the filter. Raises
    `InvalidFilter`."""
    return within(
        _degrees(lat, 90, at[0]), _degrees(lng, 180, at[1]), _checked_radius(metres, at[2])
    )


def _degrees(value: object, most: int, at: str) -> float:
    number = checked_number(value, at)
    if abs(number) > most:
        raise invalid(at, f"is {number}; give degrees from -{most} to {most}")
    return number


def _checked_radius(value: object, at: str) -> float:
    metres = checked_number(value, at)
    if metres <= 0:
        raise invalid(at, f"is {metres}; give metres above 0")
    return metres
