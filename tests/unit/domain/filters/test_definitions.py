"""What a filter must be when it is set: every part with a wrong type, missing, and empty."""

from __future__ import annotations

from typing import Any

import pytest

from hubbub.domain.errors import (
    BadRequest,
    IncompleteFilter,
    InvalidFilter,
    InvalidName,
    NotFound,
    TooManyFilters,
)
from hubbub.domain.filters.definition import FilterDefinition, read_definition
from hubbub.domain.filters.filters import (
    MAX_FILTERS,
    NO_FILTERS,
    Filter,
    Filters,
    compile_filter,
)

pytestmark = pytest.mark.spec("CMD-06")

_PLACE = {"location": {"lat": 1.0, "lng": 2.0}}


def _set(**parts: Any) -> Filter:
    return compile_filter(read_definition({"name": "f", **parts}))


def _refused(kind: type[BadRequest], **parts: Any) -> BadRequest:
    with pytest.raises(kind) as caught:
        _set(**parts)
    assert type(caught.value) is kind
    return caught.value


@pytest.mark.parametrize("name", [None, ""])
def test_a_filter_without_a_name_is_incomplete(name: object) -> None:
    error = _refused(IncompleteFilter, name=name, condition={})
    assert error.details == {"at": "name"}


@pytest.mark.parametrize("name", [1, True, [], {}, "x" * 256, "a\nb"])
def test_a_name_is_short_printable_text(name: object) -> None:
    assert _refused(InvalidFilter, name=name, condition={}).details == {"at": "name"}


@pytest.mark.parametrize("parts", [{}, {"condition": None}, {"relevant": False}])
def test_a_filter_that_says_nothing_is_incomplete(parts: dict[str, Any]) -> None:
    assert "at least one" in str(_refused(IncompleteFilter, **parts))


@pytest.mark.parametrize(
    "parts",
    [{"condition": {}}, {"template": {}}, {"relevant": True}, {"channel": "", "condition": {}}],
)
def test_one_part_is_enough_and_may_be_empty(parts: dict[str, Any]) -> None:
    _set(**parts)


@pytest.mark.parametrize("value", [1, "x", [], None, True])
def test_a_definition_is_an_object(value: object) -> None:
    with pytest.raises(InvalidFilter):
        read_definition(value)


def test_an_unknown_part_is_named() -> None:
    assert "tempalte is no part" in str(_refused(InvalidFilter, tempalte={}))


@pytest.mark.parametrize(
    ("channel", "kind"), [(1, InvalidFilter), (["a"], InvalidFilter), ("a\0", InvalidName)]
)
def test_a_channel_is_a_name(channel: object, kind: type[BadRequest]) -> None:
    _refused(kind, channel=channel, condition={})


_ANYTHING: list[Any] = [1, "x", [], True]
_WRONG: list[tuple[str, dict[str, Any]]] = [
    *[("template", {"template": value}) for value in _ANYTHING],
    *[("condition", {"condition": value}) for value in _ANYTHING],
    *[("relevant", {"relevant": value}) for value in (1, 0, "true")],
    ("relevant", {"relevant": []}),
    ("relevant", {"relevant": {}}),
    *[
        (f"template.{name}", {"template": {name: 1}})
        for name in (
            "msgid",
            "msgID",
            "chid",
            "channel",
            "published",
            "timestamp",
            "relevance",
            "relevantUntil",
            "transient",
            "paylod",
        )
    ],
    *[("template.headers", {"template": {"headers": value}}) for value in _ANYTHING],
    *[("template.location", {"template": {"location": value}}) for value in _ANYTHING],
    *[("radius", {"template": _PLACE, "radius": value}) for value in (0, -1, "5", True)],
    ("radius", {"template": _PLACE, "radius": []}),
    ("template.location.lat", {"template": _PLACE}),
    ("template.location.lng", {"template": {"location": {"lng": 0}}}),
    *[
        ("template.location.lat", {"template": {"location": {"lat": value, "lng": 0}}, "radius": 5})
        for value in ("1", True, 90.5, -91)
    ],
    *[
        ("template.location.lng", {"template": {"location": {"lat": 0, "lng": value}}, "radius": 5})
        for value in ("1", False, 180.5)
    ],
]


@pytest.mark.parametrize(("at", "parts"), _WRONG)
def test_what_is_wrong_names_its_place(at: str, parts: dict[str, Any]) -> None:
    assert _refused(InvalidFilter, **parts).details["at"] == at


@pytest.mark.parametrize(
    ("at", "template"),
    [
        ("template.location", None),
        ("template.location.lat", {}),
        ("template.location.lat", {"location": {}}),
        ("template.location.lat", {"location": {"lng": 1}}),
        ("template.location.lat", {"location": {"lat": None, "lng": 1}}),
        ("template.location.lng", {"location": {"lat": 1}}),
        ("template.location.lat", {"location": {"pos": {"lat": 1, "lng": 1}}}),
    ],
)
def test_a_radius_without_a_centre_is_incomplete(at: str, template: Any) -> None:
    error = _refused(IncompleteFilter, template=template, radius=5)
    assert error.details["at"] == at


_ORDERS = ("gt", "gte", "lt", "lte")
_NO_NUMBERS: list[Any] = ["1", True, None, [], {}, float("nan"), float("inf"), 2**64]
_NO_OBJECTS: list[Any] = [1, "x", [], None, True]
_NO_ARRAYS: list[Any] = [1, "x", {}, None]
_NO_CONDITIONS: list[Any] = [1, {}, None, [], [{}], [{}, 1], [{}, None], [{}, {"no": 1}]]
_NOT_ONE_CONDITION: list[Any] = [1, [], None, {}, {"no": 1}, "x"]
_NO_BOOLEANS: list[Any] = [1, 0, None, "x", {}]
_NO_CIRCLES: list[Any] = [1, [], None, {}, {"lat": 1, "lng": 1}]
_WRONG_OPERANDS: list[tuple[str, Any]] = [
    *[(name, value) for name in ("eq", "ne", "in", "nin", *_ORDERS) for value in _NO_OBJECTS],
    *[(name, {"payload.a": value}) for name in _ORDERS for value in _NO_NUMBERS],
    *[(name, {"payload.a": value}) for name in ("in", "nin") for value in _NO_ARRAYS],
    *[(name, value) for name in ("and", "or", "nor") for value in _NO_CONDITIONS],
    *[("not", value) for value in _NOT_ONE_CONDITION],
    *[(name, value) for name in ("relevant", "boolean") for value in _NO_BOOLEANS],
    *[("geo", value) for value in _NO_CIRCLES],
    *[
        ("geo", {"lat": 1, "lng": 1, "radius": 1} | {name: value})
        for name in ("lat", "lng", "radius")
        for value in (None, "1", True, 1000.0 if name != "radius" else 0)
    ],
    ("geo", {"lat": 1, "lng": 1, "radius": 1, "unit": "km"}),
    *[("eq", {path: 1}) for path in ("", ".", "payload.", ".a", "payload..a", "nothing", "a.b")],
    ("eq", {"payload": 2**64}),
    ("equals", {"payload": 1}),
    ("$eq", {"payload": 1}),
    ("EQ", {"payload": 1}),
]


@pytest.mark.parametrize(("operator", "operand"), _WRONG_OPERANDS)
def test_an_operand_of_the_wrong_kind_is_refused_when_it_is_set(
    operator: str, operand: object
) -> None:
    error = _refused(InvalidFilter, condition={operator: operand})
    assert error.details["at"].startswith("condition") or "not JSON" in str(error)
    nested = {"or": [{"boolean": True}, {"not": {operator: operand}}]}
    _refused(InvalidFilter, condition=nested)


def _nested(levels: int) -> dict[str, Any]:
    condition: dict[str, Any] = {"boolean": True}
    for _ in range(levels - 1):
        condition = {"not": condition}
    return condition


def test_conditions_nest_32_deep_and_no_deeper() -> None:
    _set(condition=_nested(32))
    for levels in (33, 100, 5000):
        assert "32 levels" in str(_refused(InvalidFilter, condition=_nested(levels)))


@pytest.mark.parametrize("levels", [33, 100, 5000])
@pytest.mark.parametrize("bracket", ["list", "object"])
def test_values_nest_32_deep_and_no_deeper(levels: int, bracket: str) -> None:
    value: Any = 1
    for _ in range(levels):
        value = [value] if bracket == "list" else {"a": value}
    _refused(InvalidFilter, condition={"eq": {"payload": value}})
    _refused(InvalidFilter, condition={"in": {"payload": [value]}})
    _refused(InvalidFilter, template={"payload": value})


@pytest.mark.parametrize(
    "around",
    [
        lambda value: {"name": value, "condition": {}},
        lambda value: {"channel": value, "condition": {}},
        lambda value: {"template": value},
        lambda value: {"template": {"headers": value}},
        lambda value: {"template": _PLACE, "radius": value},
        lambda value: {"relevant": value},
        lambda value: {"condition": value},
        lambda value: {"condition": {"lt": {"payload.a": value}}},
        lambda value: {"condition": {"in": value}},
        lambda value: {"condition": {"and": [value, value]}},
        lambda value: {"condition": {"not": value}},
        lambda value: {"condition": {"geo": value}},
        lambda value: {"condition": {"boolean": value}},
    ],
)
@pytest.mark.parametrize("levels", [500, 5000])
def test_what_is_nested_deeply_is_refused_in_every_place(around: Any, levels: int) -> None:
    """Also by the error message, which quotes what it refuses."""
    value: Any = 1
    for _ in range(levels):
        value = [value]
    assert len(str(_refused(InvalidFilter, **around(value)))) < 200


def test_filter_bombs_are_refused_by_their_size() -> None:
    for parts in (
        {"condition": {"in": {"payload.a": list(range(100_000))}}},
        {"condition": {"eq": {"payload.a": "x" * 20_000}}},
        {"condition": {"eq": {"payload." + "a" * 20_000: 1}}},
        {"template": {"payload": {str(n): n for n in range(10_000)}}},
    ):
        assert "bytes; at most" in str(_refused(InvalidFilter, **parts))
    for condition in (
        {"and": [{"relevant": True}] * 501},
        {"eq": {"payload": [0] * 600}},
        {"eq": {f"payload.{n}": n for n in range(600)}},
        {"lt": {f"payload.{n}": n for n in range(600)}},
        {"in": {"payload": [[0]] * 600}},
        {"or": [{"boolean": False}] * 600},
    ):
        assert "comparisons; at most" in str(_refused(InvalidFilter, condition=condition))
    _set(condition={"in": {"payload.a": list(range(3000))}})


def test_sessions_have_a_bound_on_filters_and_on_their_cost() -> None:
    filters = NO_FILTERS
    for number in range(MAX_FILTERS):
        filters = filters.adding(_set(name=str(number), condition={}))
    filters = filters.adding(_set(name="7", condition={"boolean": False}))  # replaces
    with pytest.raises(TooManyFilters):
        filters.adding(_set(name="one more", condition={}))
    costly = Filters().adding(_set(condition={"or": [{"boolean": False}] * 400}))
    with pytest.raises(TooManyFilters):
        costly.adding(_set(name="g", condition={"or": [{"boolean": False}] * 101}))
    large = NO_FILTERS
    for number in range(4):
        large = large.adding(_set(name=str(number), template={"payload": "x" * 16_000}))
    with pytest.raises(TooManyFilters):
        large.adding(_set(name="one more", template={"payload": "x" * 16_000}))


# -- the list of a session ----------------------------------------------------------------------


def _named(name: str, channel: str | None = None, **parts: Any) -> Filter:
    return compile_filter(FilterDefinition(name, channel, **(parts or {"condition": {}})))


def _names(filters: Filters, channel: str | None = None) -> list[tuple[str, str | None]]:
    return [(each.name, each.channel) for each in filters.listed(channel)]


def test_the_same_name_and_channel_replaces_in_place() -> None:
    filters = Filters([_named("a"), _named("b"), _named("a", "news")])
    filters = filters.adding(_named("a", relevant=True))
    assert _names(filters) == [("a", None), ("b", None), ("a", "news")]
    assert filters.listed()[0].relevant is True
    assert _names(filters, "news") == [("a", "news")]
    assert _names(filters, "unknown") == []


def test_a_filter_is_unset_by_name_in_one_channel_or_everywhere() -> None:
    filters = Filters([_named("a"), _named("b"), _named("a", "news")])
    assert _names(filters.without("a", "news")) == [("a", None), ("b", None)]
    assert _names(filters.without("a")) == [("b", None)]
    for name, channel in (("c", None), ("b", "news"), ("a", "other")):
        with pytest.raises(NotFound):
            filters.without(name, channel)


def test_screens_are_equal_where_filters_say_the_same() -> None:
    one = Filters([_named("a", condition={"eq": {"payload.a": 1, "payload.b": 2}})])
    same = Filters([_named("z", "news", condition={"eq": {"payload.b": 2, "payload.a": 1}})])
    other = Filters([_named("a", condition={"eq": {"payload.a": True, "payload.b": 2}})])
    assert one.for_channel("news") == same.for_channel("news")
    assert hash(one.for_channel("news")) == hash(same.for_channel("news"))
    assert one.for_channel("news") != other.for_channel("news")
    assert same.for_channel("sports") is None
    assert NO_FILTERS.for_channel("news") is None


def test_a_path_has_a_bounded_number_of_names() -> None:
    _set(condition={"eq": {"payload" + ".a" * 32: 1}})
    for operator, operand in (("eq", 1), ("lt", 1), ("in", [1]), ("ne", 1)):
        for names in (33, 7000):
            error = _refused(
                InvalidFilter, condition={operator: {"payload" + ".a" * names: operand}}
            )
            assert f"has {names} names after payload; give at most 32" in str(error)
            assert len(str(error)) < 200


def test_the_names_of_a_path_count_as_comparisons() -> None:
    def cost(condition: dict[str, Any]) -> int:
        return _set(condition=condition).checks

    assert cost({"eq": {"event": "sale"}}) == 1
    assert cost({"eq": {"payload.a.b.c.d": 1}}) == 1
    assert cost({"lt": {"payload.a.b.c.d.e": 1}}) == 2
    assert cost({"in": {"payload" + ".a" * 32: [1, 2]}}) == 8
    many = {"payload" + ".a" * 32 + str(n): 1 for n in range(100)}
    assert "makes 800 comparisons" in str(_refused(InvalidFilter, condition={"eq": many}))


@pytest.mark.parametrize("empty", [{}, {"eq": {}}, {"not": {"and": [{}, {}]}}])
def test_conditions_that_compare_nothing_cost_as_much_as_a_comparison(empty: Any) -> None:
    assert "comparisons; at most" in str(_refused(InvalidFilter, condition={"or": [empty] * 501}))
