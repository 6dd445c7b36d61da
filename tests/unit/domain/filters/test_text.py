"""Conditions as text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.domain.errors import InvalidFilter
from hubbub.domain.filters.definition import FilterDefinition
from hubbub.domain.filters.filters import compile_filter
from hubbub.domain.filters.text import parse_condition

pytestmark = pytest.mark.spec("CMD-06")


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("payload.price lt 10", {"lt": {"payload.price": 10}}),
        ("payload.price<10.5", {"lt": {"payload.price": 10.5}}),
        ("payload.n >= -1e3", {"gte": {"payload.n": -1000.0}}),
        ('event = "sale"', {"eq": {"event": "sale"}}),
        ("event == 'it\\'s \"x\"'", {"eq": {"event": 'it\'s "x"'}}),
        (r"event eq 'a\"b\\c'", {"eq": {"event": 'a"b\\c'}}),
        (r'event eq "é\n\u00e9"', {"eq": {"event": "é\né"}}),
        ("event != null", {"ne": {"event": None}}),
        (
            "payload.a in [1, 'x', true, false, null]",
            {"in": {"payload.a": [1, "x", True, False, None]}},
        ),
        ("payload.a nin []", {"nin": {"payload.a": []}}),
        ("relevant", {"relevant": True}),
        ("irrelevant", {"relevant": False}),
        ("within 500 of 48.85,-2.3", {"geo": {"lat": 48.85, "lng": -2.3, "radius": 500}}),
        ("`payload.a b` gt 1", {"gt": {"payload.a b": 1}}),
        ("payload.x-y eq 1", {"eq": {"payload.x-y": 1}}),
        (
            "event eq 'a' or event eq 'b' and payload.n gt 1",
            {
                "or": [
                    {"eq": {"event": "a"}},
                    {"and": [{"eq": {"event": "b"}}, {"gt": {"payload.n": 1}}]},
                ]
            },
        ),
        (
            "not (event eq 'a' or relevant) and payload.n lte 1",
            {
                "and": [
                    {"not": {"or": [{"eq": {"event": "a"}}, {"relevant": True}]}},
                    {"lte": {"payload.n": 1}},
                ]
            },
        ),
    ],
)
def test_a_text_says_a_condition(text: str, condition: dict[str, Any]) -> None:
    assert parse_condition(text) == condition
    compile_filter(FilterDefinition("f", condition=condition))


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 0),
        ("   ", 3),
        ("payload.price", 13),
        ("payload.price is 3", 14),
        ('payload.price lt "10"', 17),
        ("payload.price lt ten", 17),
        ("event eq sale", 9),
        ("event eq 'sale", 9),
        ("event eq 1 event", 11),
        ("(event eq 1", 11),
        ("event eq 1)", 10),
        ("event in 1", 9),
        ("event in [1 2]", 12),
        ("event eq 007", 9),
        ("event lt 1e999", 9),
        ("event eq % 1", 9),
        ('event eq "\\q"', 9),
        ("and relevant", 4),
        ("relevant and", 12),
        ("not", 3),
        ("within 5 of 1 2", 14),
        ("within of 1,2", 7),
        ("within 5 1,2", 9),
        ("1 eq event", 0),
        ("x" * 20_000, 0),
    ],
)
def test_an_error_points_to_its_place(text: str, position: int) -> None:
    with pytest.raises(InvalidFilter) as caught:
        parse_condition(text)
    assert caught.value.details == {"position": position}
    assert str(caught.value).startswith(f"character {position + 1}: ")


@pytest.mark.parametrize("text", ["(" * 5000, "not " * 5000])
def test_brackets_nest_no_deeper_than_conditions(text: str) -> None:
    with pytest.raises(InvalidFilter, match=r"32 levels|characters; at most"):
        parse_condition(text)


@given(st.text(alphabet=" ()[],.<>=!'\"`\\0129-eEanotrdinlwthf%é", max_size=40))
def test_any_text_is_a_condition_or_refused(text: str) -> None:
    refused: InvalidFilter | None = None
    try:
        condition = parse_condition(text)
    except InvalidFilter as error:
        refused = error
    if refused is None:
        assert isinstance(condition, dict)
    else:
        assert 0 <= refused.details.get("position", 0) <= len(text)
