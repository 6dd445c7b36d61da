"""Filters in the words of an hMessage, as `hSetFilter` sets them."""

from __future__ import annotations

from typing import Any

import pytest

from harness.filter_samples import NOW
from hubbub.domain.errors import InvalidFilter
from hubbub.domain.filters.definition import HMESSAGE_NAMES, read_definition
from hubbub.domain.filters.filters import compile_filter
from hubbub.domain.filters.view import MessageView
from hubbub.domain.messages import JSON, Attributes, Message

pytestmark = pytest.mark.spec("CMD-06")

GIVEN = 1_341_568_800_000
"""2012-07-06T10:00:00Z."""
FULL = Attributes(
    author="bob@demo",
    conversation_id="c1",
    priority=3,
    relevant_until=GIVEN,
    headers={"a": {"b": 1}},
    location={"city": "Rome"},
    structured={"published": GIVEN, "more": {"colour": {"name": "red"}}},
)


def _message(attributes: Attributes | None = FULL, serial: int = 7) -> Message:
    return Message(
        "m1", "demo", "news", "sale", b'{"n": 1}', JSON, NOW, serial, "ann", attributes=attributes
    )


def _passes(message: Message, **parts: Any) -> bool:
    compiled = compile_filter(read_definition({"name": "f", **parts}, HMESSAGE_NAMES))
    return compiled.passes(MessageView(message, NOW))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("msgid", "m1"),
        ("chid", "#news@demo"),
        ("convid", "c1"),
        ("type", "sale"),
        ("priority", 3),
        ("relevance", GIVEN),
        ("relevance", "2012-07-06T10:00:00Z"),
        ("transient", False),
        ("location.city", "Rome"),
        ("author", "bob@demo"),
        ("publisher", "ann@demo"),
        ("publisher", "ann@demo/tab"),
        ("published", GIVEN),
        ("published", "2012-07-06T12:00:00+02:00"),
        ("headers.a.b", 1),
        ("payload.n", 1),
        ("colour.name", "red"),
    ],
)
def test_conditions_speak_of_the_attributes_as_they_are_delivered(path: str, value: Any) -> None:
    message = _message()
    assert _passes(message, condition={"eq": {path: value}})
    assert not _passes(message, condition={"ne": {path: value}})
    assert _passes(message, condition={"in": {path: ["other", value]}})
    assert not _passes(message, condition={"nin": {path: ["other", value]}})
    assert _passes(message, condition={"ne": {path: "other"}, "nin": {path: ["other"]}})


@pytest.mark.parametrize(("path", "value"), [("convid", "m1"), ("priority", 1), ("published", NOW)])
def test_what_the_publisher_left_out_has_its_default(path: str, value: Any) -> None:
    assert _passes(_message(None), condition={"eq": {path: value}})


@pytest.mark.parametrize("path", ["author", "relevance", "headers.a", "location.city", "colour"])
def test_what_has_no_default_is_absent(path: str) -> None:
    for condition in ({"eq": {path: "x"}}, {"ne": {path: "x"}}, {"nin": {path: ["x"]}}):
        assert not _passes(_message(None), condition=condition)


def test_a_message_that_is_not_stored_has_no_transient() -> None:
    for value in (True, False):
        assert not _passes(_message(serial=0), condition={"eq": {"transient": value}})


@pytest.mark.parametrize("publisher", ["ann@demo", "ann@demo/tab", "ann@demo/"])
def test_a_template_compares_publishers_bare(publisher: str) -> None:
    assert _passes(_message(), template={"publisher": publisher, "type": "sale", "priority": 3})
    assert not _passes(_message(), template={"publisher": publisher.replace("ann", "bob")})
    assert _passes(_message(), template={"colour": {"name": "red"}, "convid": "c1"})


@pytest.mark.parametrize("name", ["msgid", "chid", "published", "relevance", "transient"])
@pytest.mark.parametrize("value", [1, "", None, {}])
def test_a_template_cannot_name_what_each_message_has_for_itself(name: str, value: Any) -> None:
    with pytest.raises(InvalidFilter, match=name):
        _passes(_message(), template={name: value})


def test_the_first_refusal_ends_the_evaluation() -> None:
    """The payload is not even decoded for a filter behind one that refuses."""
    view = MessageView(_message(), NOW)
    refusing = read_definition({"name": "a", "template": {"type": "draft"}}, HMESSAGE_NAMES)
    both = read_definition(
        {"name": "b", "template": {"type": "draft"}, "condition": {"eq": {"payload.n": 1}}},
        HMESSAGE_NAMES,
    )
    assert not compile_filter(refusing).passes(view)
    assert not compile_filter(both).passes(view)
    with pytest.raises(AttributeError):
        MessageView.__dict__["payload"].__get__(view)
