"""Templates: an object whose attributes a message must have, recursively."""

from __future__ import annotations

from typing import Any

from hubbub.domain.filters.conditions import all_of
from hubbub.domain.filters.geo import checked_circle
from hubbub.domain.filters.names import Names
from hubbub.domain.filters.values import checked_value, equals, invalid, missing
from hubbub.domain.filters.view import ABSENT, Getter, MessageView, Predicate
from hubbub.domain.shown import shown

_OBJECTS = ("headers", "location")


def checked_template(template: object, radius: object, names: Names) -> tuple[Predicate, int]:
    """Returns the compiled template and the most comparisons that a message costs. Without a
    template (None), `radius` must be None. Raises `InvalidFilter` and `IncompleteFilter`."""
    if template is None:
        if radius is not None:
            raise missing("template.location", "a radius needs its lat and lng")
        return all_of(()), 0
    if not isinstance(template, dict):
        raise invalid("template", f"is {shown(template)}; give an object")
    checks = checked_value(template, "template")
    predicates = []
    for name, wanted in template.items():
        at = f"template.{name}"
        if name in names.untemplated:
            raise invalid(at, "is different in each message; use a condition")
        getter = names.find(name)
        if getter is None:
            known = ", ".join(sorted(names.getters, key=str.lower))
            raise invalid(at, f"is an attribute that no message has; there are {known}")
        if wanted is None:
            continue  # means absent
        if name in _OBJECTS and not isinstance(wanted, dict):
            raise invalid(at, f"is {shown(wanted)}; give an object")
        if name != "location":
            normal = names.normal.get(name)
            predicates.append(_matching(getter, wanted if normal is None else normal(wanted)))
    predicates += _places(template.get("location"), radius, names)
    return all_of(predicates), checks


def _places(place: dict[str, Any] | None, radius: object, names: Names) -> list[Predicate]:
    place = place or {}
    coordinates = {name: place[name] for name in ("lat", "lng") if place.get(name) is not None}
    if radius is None:
        for name in coordinates:
            raise invalid(f"template.location.{name}", "needs a radius")
    rest = {name: each for name, each in place.items() if name not in ("lat", "lng")}
    getter = names.find("location")
    assert getter is not None
    found = [_matching(getter, rest)] if rest else []
    if radius is not None:
        for name in ("lat", "lng"):
            if name not in coordinates:
                raise missing(f"template.location.{name}", "a radius needs it")
        places = ("template.location.lat", "template.location.lng", "radius")
        found.append(checked_circle(coordinates["lat"], coordinates["lng"], radius, places))
    return found


def _matching(getter: Getter, wanted: Any) -> Predicate:
    if not isinstance(wanted, dict | list):
        test = equals(wanted)
        return lambda view: test(getter(view))

    def predicate(view: MessageView) -> bool:
        return fits(wanted, getter(view))

    return predicate


def fits(wanted: Any, value: Any) -> bool:
    """Whether a value matches a template: extra members are allowed, extra list elements are
    not."""
    if isinstance(wanted, dict):
        return type(value) is dict and all(
            fits(each, value.get(name, ABSENT)) for name, each in wanted.items()
        )
    if isinstance(wanted, list):
        return type(value) is list and len(wanted) == len(value) and all(map(fits, wanted, value))
    return (type(wanted) is bool) == (type(value) is bool) and bool(wanted == value)
