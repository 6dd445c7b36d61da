"""Conditions: an object of operators that must all hold, compiled to one function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import ge, gt, le, lt
from typing import Any, Final

from hubbub.domain.filters.geo import checked_circle
from hubbub.domain.filters.names import Names, relevant_until
from hubbub.domain.filters.values import (
    MAX_DEPTH,
    Test,
    check_cost,
    checked_number,
    checked_value,
    checks_of_path,
    equals,
    invalid,
    one_of,
    too_deep,
)
from hubbub.domain.filters.view import ABSENT, Getter, MessageView, Predicate, at_path
from hubbub.domain.shown import shown

_MOST_SHOWN: Final = 60
_NO_PATH: Final = "is no path; give names with dots between them, like payload.price"


class ConditionCompiler:
    """Compiles the condition of one filter. `checks` is the most comparisons that a message
    costs."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self.checks = 0

    def compile(self, condition: object, at: str = "condition", depth: int = 1) -> Predicate:
        """Raises `InvalidFilter` and `IncompleteFilter`."""
        if depth > MAX_DEPTH:
            raise too_deep(at)
        check_cost(self.checks)  # a bomb is not compiled to its end
        if not isinstance(condition, dict):
            raise invalid(at, f"is {shown(condition)}; give an object of operators")
        before = self.checks
        predicate = all_of([self._operator(at, *each, depth) for each in condition.items()])
        self.checks = max(self.checks, before + 1)  # an empty one is evaluated, too
        return predicate

    def _operator(self, at: str, name: object, operand: object, depth: int) -> Predicate:
        compile_operand = _OPERATORS.get(name) if isinstance(name, str) else None
        if compile_operand is None:
            raise invalid(at, f"has the operator {shown(name)}; there are {', '.join(_OPERATORS)}")
        return compile_operand(self, operand, f"{at}.{name}", depth)

    # -- comparisons ----------------------------------------------------------------------------

    def _eq(self, operand: object, at: str, depth: int) -> Predicate:
        return self._each(operand, at, depth, self._equals)

    def _ne(self, operand: object, at: str, depth: int) -> Predicate:
        return self._each(operand, at, depth, self._equals, negated=True)

    def _in(self, operand: object, at: str, depth: int) -> Predicate:
        return self._each(operand, at, depth, self._one_of)

    def _nin(self, operand: object, at: str, depth: int) -> Predicate:
        return self._each(operand, at, depth, self._one_of, negated=True)

    def _each(
        self,
        operand: object,
        at: str,
        depth: int,
        make: Callable[[object, str, int], Test],
        negated: bool = False,
    ) -> Predicate:
        """All paths must pass their test; with `negated`, each path must exist and fail its
        test."""
        predicates = []
        for path, wanted in _paths(operand, at):
            place = f"{at}[{path[:_MOST_SHOWN]!r}]"
            get = self.getter(path, place)
            test = make(self._normal(path, wanted), place, depth)
            predicates.append(_fails(get, test) if negated else _passes(get, test))
        return all_of(predicates)

    def _equals(self, wanted: object, at: str, depth: int) -> Test:
        self.checks += checked_value(wanted, at, depth) - 1
        return equals(wanted)

    def _one_of(self, wanted: object, at: str, depth: int) -> Test:
        if not isinstance(wanted, list):
            raise invalid(at, f"is {shown(wanted)}; give an array")
        composite = [each for each in wanted if isinstance(each, dict | list)]
        checked_value(wanted, at, depth)
        self.checks += sum(checked_value(each, at, depth) for each in composite)
        return one_of(wanted)

    def _normal(self, path: str, wanted: Any) -> Any:
        normal = self._names.normal.get(path)
        if normal is None:
            return wanted
        return list(map(normal, wanted)) if isinstance(wanted, list) else normal(wanted)

    def compare(self, operand: object, at: str, order: Callable[[Any, Any], bool]) -> Predicate:
        predicates = []
        for path, limit in _paths(operand, at):
            place = f"{at}[{path[:_MOST_SHOWN]!r}]"
            get = self.getter(path, place)
            predicates.append(_ordered(get, order, checked_number(limit, place)))
        return all_of(predicates)

    def getter(self, path: str, at: str) -> Getter:
        """Compiles the access to an attribute or a value inside it, and counts its cost. Raises
        `InvalidFilter`."""
        if not all(path.split(".")):
            raise invalid(at, _NO_PATH)
        root, *keys = path.split(".")
        if len(keys) > MAX_DEPTH:
            raise invalid(at, f"has {len(keys)} names after {root}; give at most {MAX_DEPTH}")
        self.checks += checks_of_path(len(keys))
        getter = self._names.find(root)
        if getter is None:
            known = ", ".join(sorted(self._names.getters, key=str.lower))
            raise invalid(at, f"begins with {shown(root)}, which no message has; there are {known}")
        return at_path(getter, tuple(keys))

    # -- combinations ---------------------------------------------------------------------------

    def _combined(self, operand: object, at: str, depth: int) -> list[Predicate]:
        if not isinstance(operand, list):
            raise invalid(at, f"is {shown(operand)}; give an array of conditions")
        if len(operand) < 2:
            raise invalid(at, f"has {len(operand)} conditions; give two or more")
        return [
            self.compile(each, f"{at}[{number}]", depth + 1) for number, each in enumerate(operand)
        ]

    def _and(self, operand: object, at: str, depth: int) -> Predicate:
        return all_of(self._combined(operand, at, depth))

    def _or(self, operand: object, at: str, depth: int) -> Predicate:
        return any_of(self._combined(operand, at, depth))

    def _nor(self, operand: object, at: str, depth: int) -> Predicate:
        return _opposite(any_of(self._combined(operand, at, depth)))

    def _not(self, operand: object, at: str, depth: int) -> Predicate:
        if operand == {}:
            raise invalid(at, "is empty; give a condition")
        self.checks += 1
        return _opposite(self.compile(operand, at, depth + 1))

    # -- the others -----------------------------------------------------------------------------

    def _relevant(self, operand: object, at: str, depth: int) -> Predicate:
        self.checks += 1
        return is_relevant if _checked_boolean(operand, at) else _was_relevant

    def _boolean(self, operand: object, at: str, depth: int) -> Predicate:
        self.checks += 1
        return _always if _checked_boolean(operand, at) else _never

    def _geo(self, operand: object, at: str, depth: int) -> Predicate:
        if not isinstance(operand, dict):
            raise invalid(at, f"is {shown(operand)}; give lat, lng and radius")
        for name in operand.keys() - {"lat", "lng", "radius"}:
            raise invalid(at, f"has {shown(name)}; there are lat, lng and radius")
        for name in ("lat", "lng", "radius"):
            if operand.get(name) is None:
                raise invalid(f"{at}.{name}", "is missing; geo needs lat, lng and radius")
        self.checks += 1
        places = (f"{at}.lat", f"{at}.lng", f"{at}.radius")
        return checked_circle(operand["lat"], operand["lng"], operand["radius"], places)


def _comparison(
    order: Callable[[Any, Any], bool],
) -> Callable[[ConditionCompiler, object, str, int], Predicate]:
    return lambda compiler, operand, at, depth: compiler.compare(operand, at, order)


_OPERATORS: Final[Mapping[str, Callable[[ConditionCompiler, object, str, int], Predicate]]] = {
    "eq": ConditionCompiler._eq,
    "ne": ConditionCompiler._ne,
    "gt": _comparison(gt),
    "gte": _comparison(ge),
    "lt": _comparison(lt),
    "lte": _comparison(le),
    "in": ConditionCompiler._in,
    "nin": ConditionCompiler._nin,
    "and": ConditionCompiler._and,
    "or": ConditionCompiler._or,
    "nor": ConditionCompiler._nor,
    "not": ConditionCompiler._not,
    "relevant": ConditionCompiler._relevant,
    "geo": ConditionCompiler._geo,
    "boolean": ConditionCompiler._boolean,
}


def _paths(operand: object, at: str) -> list[tuple[str, Any]]:
    if not isinstance(operand, dict):
        raise invalid(at, f"is {shown(operand)}; give an object of paths and values")
    for path in operand:
        if not isinstance(path, str):
            raise invalid(f"{at}[{shown(path)}]", _NO_PATH)
    return list(operand.items())


def _checked_boolean(value: object, at: str) -> bool:
    if not isinstance(value, bool):
        raise invalid(at, f"is {shown(value)}; give true or false")
    return value


def checked_relevant(value: object) -> bool:
    """Checks the `relevant` part of a filter. Raises `InvalidFilter`."""
    return _checked_boolean(value, "relevant")


def is_relevant(view: MessageView) -> bool:
    until = relevant_until(view)
    return until is not ABSENT and bool(until >= view.now)


def _was_relevant(view: MessageView) -> bool:
    until = relevant_until(view)
    return until is not ABSENT and bool(until < view.now)


def _always(view: MessageView) -> bool:
    return True


def _never(view: MessageView) -> bool:
    return False


def _passes(get: Getter, test: Test) -> Predicate:
    return lambda view: test(get(view))


def _fails(get: Getter, test: Test) -> Predicate:
    def predicate(view: MessageView) -> bool:
        value = get(view)
        return value is not ABSENT and not test(value)

    return predicate


def _ordered(get: Getter, order: Callable[[Any, Any], bool], limit: float) -> Predicate:
    def predicate(view: MessageView) -> bool:
        value = get(view)
        kind = type(value)
        return (kind is int or kind is float) and order(value, limit)

    return predicate


def _opposite(predicate: Predicate) -> Predicate:
    return lambda view: not predicate(view)


def all_of(predicates: Sequence[Predicate]) -> Predicate:
    """Evaluates the predicates in order and stops at the first that fails."""
    if not predicates:
        return _always
    if len(predicates) == 1:
        return predicates[0]
    if len(predicates) == 2:
        first, second = predicates
        return lambda view: first(view) and second(view)

    def predicate(view: MessageView) -> bool:
        for each in predicates:  # noqa: SIM110  (a generator would take longer than the tests)
            if not each(view):
                return False
        return True

    return predicate


def any_of(predicates: Sequence[Predicate]) -> Predicate:
    def predicate(view: MessageView) -> bool:
        for each in predicates:  # noqa: SIM110
            if each(view):
                return True
        return False

    return predicate
