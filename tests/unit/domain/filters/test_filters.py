"""Which messages pass which filters."""

from __future__ import annotations

import sys
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.filter_interpreter import distance
from harness.filter_interpreter import passes as naive_passes
from harness.filter_samples import NOW, random_filter, random_message
from hubbub.domain.filters import view
from hubbub.domain.filters.definition import FilterDefinition
from hubbub.domain.filters.filters import compile_filter
from hubbub.domain.filters.values import one_of
from hubbub.domain.filters.view import MessageView
from hubbub.domain.messages import BINARY, JSON, TEXT, Attributes, Message

pytestmark = pytest.mark.spec("CMD-06")


def _message(
    payload: bytes = b"{}", content_type: str = JSON, event: str = "sale", **attributes: Any
) -> Message:
    rarer = Attributes(**attributes) if attributes else None
    return Message(
        "m1", "demo", "news", event, payload, content_type, NOW, 7, "ann", attributes=rarer
    )


def _passes(message: Message, **parts: Any) -> bool:
    return compile_filter(FilterDefinition("f", **parts)).passes(MessageView(message, NOW))


def _holds(condition: dict[str, Any], payload: bytes = b"{}", **attributes: Any) -> bool:
    return _passes(_message(payload, **attributes), condition=condition)


@pytest.mark.parametrize(
    ("condition", "payload", "expected"),
    [
        ({}, b"{}", True),
        ({"eq": {"payload.a": 1}}, b'{"a": 1}', True),
        ({"eq": {"payload.a": 1}}, b'{"a": 1.0}', True),
        ({"eq": {"payload.a": 1}}, b'{"a": true}', False),
        ({"eq": {"payload.a": True}}, b'{"a": 1}', False),
        ({"eq": {"payload.a": False}}, b'{"a": 0}', False),
        ({"eq": {"payload.a": False}}, b'{"a": false}', True),
        ({"eq": {"payload.a": "1"}}, b'{"a": 1}', False),
        ({"eq": {"payload.a": None}}, b'{"a": null}', True),
        ({"eq": {"payload.a": None}}, b"{}", False),
        ({"eq": {"payload.a": ""}}, b'{"a": ""}', True),
        ({"eq": {"payload.a": [1, True]}}, b'{"a": [1, true]}', True),
        ({"eq": {"payload.a": [1, True]}}, b'{"a": [1, 1]}', False),
        ({"eq": {"payload.a": {"x": 1}}}, b'{"a": {"x": 1, "y": 2}}', False),
        ({"eq": {"payload.a": {"y": 2, "x": 1}}}, b'{"a": {"x": 1, "y": 2}}', True),
        ({"eq": {"payload.a": 1, "payload.b": 2}}, b'{"a": 1, "b": 3}', False),
        ({"eq": {"payload.a.b.c": 1}}, b'{"a": {"b": {"c": 1}}}', True),
        ({"eq": {"payload.a.1.b": 1}}, b'{"a": [0, {"b": 1}]}', True),
        ({"eq": {"payload.a.9": 1}}, b'{"a": [1]}', False),
        ({"eq": {"payload.a.-1": 1}}, b'{"a": [1]}', False),
        ({"eq": {"payload": 5}}, b"5", True),
        ({"ne": {"payload.a": 1}}, b'{"a": 2}', True),
        ({"ne": {"payload.a": 1}}, b'{"a": true}', True),
        ({"ne": {"payload.a": 1}}, b'{"a": 1}', False),
        ({"ne": {"payload.a": 1}}, b"{}", False),
        ({"ne": {"payload.a": 1, "payload.b": 1}}, b'{"a": 2, "b": 1}', False),
        ({"gt": {"payload.a": 1}}, b'{"a": 1.5}', True),
        ({"gt": {"payload.a": 1}}, b'{"a": 1}', False),
        ({"gte": {"payload.a": 1}}, b'{"a": 1}', True),
        ({"lt": {"payload.a": 1}}, b'{"a": 0}', True),
        ({"lt": {"payload.a": 1}}, b'{"a": "0"}', False),
        ({"lt": {"payload.a": 1}}, b'{"a": false}', False),
        ({"lt": {"payload.a": 1}}, b'{"a": null}', False),
        ({"lt": {"payload.a": 1}}, b"{}", False),
        ({"lt": {"payload.a": 1}}, b"[0]", False),
        ({"lte": {"payload.a": 1}}, b'{"a": 123456789012345678901234567890}', False),
        ({"gt": {"payload.a": 0, "payload.b": 0}}, b'{"a": 1, "b": 0}', False),
        ({"in": {"payload.a": [1, "x", None]}}, b'{"a": "x"}', True),
        ({"in": {"payload.a": [1, "x", None]}}, b'{"a": null}', True),
        ({"in": {"payload.a": [1, "x"]}}, b'{"a": true}', False),
        ({"in": {"payload.a": [True]}}, b'{"a": 1}', False),
        ({"in": {"payload.a": [[1], {"b": 1}]}}, b'{"a": {"b": 1}}', True),
        ({"in": {"payload.a": []}}, b'{"a": 1}', False),
        ({"in": {"payload.a": [1]}}, b"{}", False),
        ({"nin": {"payload.a": [1, 2]}}, b'{"a": 3}', True),
        ({"nin": {"payload.a": [1, 2]}}, b'{"a": 2}', False),
        ({"nin": {"payload.a": [1, 2]}}, b"{}", False),
        ({"nin": {"payload.a": []}}, b'{"a": 2}', True),
        ({"and": [{"boolean": True}, {"boolean": False}]}, b"{}", False),
        ({"and": [{}, {"boolean": True}]}, b"{}", True),
        ({"or": [{"boolean": False}, {"boolean": True}]}, b"{}", True),
        ({"or": [{"boolean": False}, {"boolean": False}]}, b"{}", False),
        ({"nor": [{"boolean": False}, {"boolean": False}]}, b"{}", True),
        ({"nor": [{"boolean": False}, {"boolean": True}]}, b"{}", False),
        ({"not": {"boolean": False}}, b"{}", True),
        ({"not": {"eq": {"payload.a": 1}}}, b"{}", True),
        ({"boolean": True}, b"{}", True),
        ({"boolean": False}, b"{}", False),
        ({"boolean": True, "eq": {"payload.a": 1}}, b'{"a": 2}', False),
        ({"relevant": True, "boolean": False}, b"{}", False),
    ],
)
def test_conditions(condition: dict[str, Any], payload: bytes, expected: bool) -> None:
    assert _holds(condition, payload) is expected


@pytest.mark.parametrize(
    ("until", "true", "false"),
    [(NOW, True, False), (NOW + 1, True, False), (NOW - 1, False, True), (None, False, False)],
)
def test_relevance_counts_up_to_and_with_its_time(
    until: int | None, true: bool, false: bool
) -> None:
    message = _message(relevant_until=until)
    assert _passes(message, condition={"relevant": True}) is true
    assert _passes(message, condition={"relevant": False}) is false
    assert _passes(message, relevant=True) is true


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("msgID", "m1"),
        ("msgid", "m1"),
        ("channel", "news"),
        ("chid", "news"),
        ("event", "sale"),
        ("type", "sale"),
        ("publisher", "ann"),
        ("timestamp", NOW),
        ("published", NOW),
        ("contentType", JSON),
        ("conversationID", "c1"),
        ("convid", "c1"),
        ("relevantUntil", 5),
        ("relevance", 5),
        ("priority", 3),
        ("author", "bob"),
        ("subtype", "s"),
        ("sender", "x"),
        ("receiver", "y"),
        ("refersTo", "m0"),
        ("language", "de"),
        ("ttl", 9),
        ("headers.a", {"deep": [1]}),
        ("headers.a.deep.0", 1),
        ("location.city", "Rome"),
    ],
)
def test_conditions_and_templates_speak_of_every_attribute(path: str, value: Any) -> None:
    attributes: Any = {
        "conversation_id": "c1", "relevant_until": 5, "priority": 3, "author": "bob",
        "subtype": "s", "sender": "x", "receiver": "y", "refers_to": "m0", "language": "de",
        "ttl": 9, "headers": {"a": {"deep": [1]}}, "location": {"city": "Rome"},
    }  # fmt: skip
    assert _passes(_message(**attributes), condition={"eq": {path: value}})
    assert not _passes(_message(**attributes), condition={"eq": {path: "other"}})


def test_text_is_a_value_and_other_payloads_are_opaque() -> None:
    hello = {"eq": {"payload": "hello"}}
    assert _passes(_message(b"hello", TEXT), condition=hello)
    assert not _passes(_message(b"hello", BINARY), condition=hello)
    assert not _passes(_message(b"hello", BINARY), condition={"ne": {"payload": "x"}})
    assert _passes(_message(b'"hello"'), condition=hello)
    for broken in (b"\xff", b"{", b"[" * 100_000):
        assert not _passes(_message(broken), condition=hello)


@pytest.mark.parametrize(
    ("template", "payload", "expected"),
    [
        ({}, b"{}", True),
        ({"event": "sale"}, b"{}", True),
        ({"type": "sale", "publisher": "ann"}, b"{}", True),
        ({"event": "draft"}, b"{}", False),
        ({"author": "bob"}, b"{}", False),
        ({"author": None}, b"{}", True),
        ({"payload": {"a": {"b": 1}}}, b'{"a": {"b": 1, "c": 2}, "d": 3}', True),
        ({"payload": {"a": {"b": 1}}}, b'{"a": {"c": 2}}', False),
        ({"payload": {"a": {"b": 1}}}, b'{"a": 1}', False),
        ({"payload": {"a": 1}}, b'{"a": true}', False),
        ({"payload": {"a": "1"}}, b'{"a": 1}', False),
        ({"payload": {"a": 1.0}}, b'{"a": 1}', True),
        ({"payload": {"a": None}}, b'{"a": null}', True),
        ({"payload": {"a": None}}, b"{}", False),
        ({"payload": {"a": [1, 2]}}, b'{"a": [1, 2]}', True),
        ({"payload": {"a": [1, 2]}}, b'{"a": [1]}', False),
        ({"payload": {"a": [1, 2]}}, b'{"a": [1, 2, 3]}', False),
        ({"payload": {"a": [2, 1]}}, b'{"a": [1, 2]}', False),
        ({"payload": {"a": [{"x": 1}]}}, b'{"a": [{"x": 1, "y": 2}]}', True),
        ({"payload": []}, b"[]", True),
        ({"payload": "text"}, b'"text"', True),
    ],
)
def test_templates(template: dict[str, Any], payload: bytes, expected: bool) -> None:
    assert _passes(_message(payload), template=template) is expected


def test_headers_and_locations_of_a_template_are_compared_recursively() -> None:
    message = _message(headers={"a": {"b": 1}, "c": 2}, location={"city": "Rome", "lat": 9})
    assert _passes(message, template={"headers": {"a": {"b": 1}}, "location": {"city": "Rome"}})
    assert not _passes(message, template={"headers": {"a": {"b": 2}}})
    assert not _passes(_message(), template={"headers": {}})


# -- the globe ----------------------------------------------------------------------------------


def _near(location: Any, lat: float, lng: float, radius: float) -> bool:
    message = _message(location=location)
    condition = {"geo": {"lat": lat, "lng": lng, "radius": radius}}
    template = {"location": {"lat": lat, "lng": lng}}
    by_condition = _passes(message, condition=condition)
    assert by_condition is _passes(message, template=template, radius=radius)
    return by_condition


def test_a_radius_is_measured_in_metres_on_a_sphere() -> None:
    paris, london = (48.8566, 2.3522), (51.5074, -0.1278)
    place = {"lat": london[0], "lng": london[1]}
    assert distance(*paris, *london) == pytest.approx(343_556, abs=1)
    assert _near(place, *paris, 343_560)
    assert not _near(place, *paris, 343_550)


def test_a_radius_includes_its_edge_and_crosses_the_date_line_and_the_poles() -> None:
    exactly = distance(10, 20, 11, 21)
    assert _near({"lat": 11, "lng": 21}, 10, 20, exactly)
    assert _near({"lat": 10, "lng": 20}, 10, 20, 1e-9)
    assert _near({"lat": 0, "lng": -179.9}, 0, 179.9, 30_000)
    assert _near({"lat": 89.9, "lng": 0}, 89.9, 180, 30_000)
    assert _near({"lat": -90, "lng": 0}, 90, 0, 20_015_200)
    assert _near({"lat": -90, "lng": 0}, 90, 0, 1e9)
    assert not _near({"lat": -90, "lng": 0}, 90, 0, 20_015_000)


def test_zero_is_a_coordinate() -> None:
    assert _near({"lat": 0, "lng": 0}, 0, 0, 1)


@pytest.mark.parametrize(
    "location",
    [
        None,
        {},
        {"lat": 0},
        {"lng": 0},
        {"lat": "0", "lng": 0},
        {"lat": True, "lng": 0},
        {"lat": 0, "lng": None},
        {"pos": 1},
        {"pos": {"lat": 0}},
        {"pos": {"pos": {"lat": 0, "lng": 0}}},
    ],
)
def test_a_message_without_coordinates_is_nowhere(location: Any) -> None:
    assert not _near(location, 0, 0, 1000)
    assert not _near(location, 0, 0, 1e9)


def test_coordinates_may_be_in_pos() -> None:
    assert _near({"pos": {"lat": 0, "lng": 0}}, 0, 0, 1)
    assert _near({"lat": "x", "lng": 0, "pos": {"lat": 0, "lng": 0}}, 0, 0, 1)
    assert not _near({"lat": 50, "lng": 0, "pos": {"lat": 0, "lng": 0}}, 0, 0, 1)


def test_the_rest_of_a_location_is_still_compared_beside_a_radius() -> None:
    place = {"lat": 1, "lng": 1, "city": "Rome"}
    message = _message(location=place)
    assert _passes(
        message, template={"location": {"lat": 1, "lng": 1.001, "city": "Rome"}}, radius=500
    )
    assert not _passes(
        message, template={"location": {"lat": 1, "lng": 1, "city": "Oslo"}}, radius=5
    )


# -- against the interpreter --------------------------------------------------------------------


@settings(max_examples=300)
@given(st.integers(0, 2**32))
def test_a_compiled_filter_agrees_with_its_interpretation(seed: int) -> None:
    random = Random(seed)
    definition = random_filter(random)
    compiled = compile_filter(definition)
    for _ in range(20):
        message = random_message(random)
        expected = naive_passes(definition, message, NOW)
        assert compiled.passes(MessageView(message, NOW)) is expected, definition


def test_a_payload_is_decoded_once_for_all_filters() -> None:
    view = MessageView(_message(b'{"a": [1]}'), NOW)
    assert view.payload is view.payload


def test_a_thousand_filters_agree_with_their_interpretation_on_100_000_messages() -> None:
    """Each message meets one of the filters, so that each filter sees a hundred."""
    random = Random(1000)
    definitions = [random_filter(random) for _ in range(1000)]
    compiled = [compile_filter(each) for each in definitions]
    passed = 0
    for number in range(100_000):
        which, message = number % 1000, random_message(random)
        found = compiled[which].passes(MessageView(message, NOW))
        assert found is naive_passes(definitions[which], message, NOW), definitions[which]
        passed += found
    assert 10_000 < passed < 90_000


def test_a_path_ends_at_the_first_name_that_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []
    element = view._element

    def counted(value: Any, key: str) -> Any:
        looked_at.append(key)
        return element(value, key)

    monkeypatch.setattr(view, "_element", counted)
    assert not _holds({"eq": {"payload.a.b.c.d.e": 1}}, b'{"a": 7}')
    assert looked_at == ["b"]
    looked_at.clear()
    assert not _holds({"eq": {"payload.x.b.c.d.e": 1}}, b'{"a": 7}')
    assert looked_at == []


def test_a_list_of_values_is_not_searched_one_after_the_other() -> None:
    test = one_of([None] * 2000 + [True] * 2000)
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        assert not test(False)
    finally:
        sys.setprofile(None)
    assert calls < 10


def test_decoding_a_payload_counts_once() -> None:
    seen = MessageView(_message(b'"' + b"x" * 62 + b'"'), NOW)
    assert seen.unread == 2
    assert seen.payload == "x" * 62
    assert seen.unread == 0
