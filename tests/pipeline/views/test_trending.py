"""Trends: what is more than usual, not what is most."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from harness.views import MONDAY, clock, rows, silver, view
from hubbub.pipeline.columns import TIME

pytestmark = pytest.mark.timeout(300)


def said(text: str, content_type: str | None = "text/plain", **more: Any) -> dict[str, Any]:
    return {
        "at": clock("10:00"),
        "payload": text.encode(),
        "content_type": content_type,
        **more,
    }


@pytest.mark.spec("PIPE-03")
def test_words_are_counted_once_in_a_message_and_without_those_that_say_nothing() -> None:
    sources = silver(
        messages=[
            said("The Harbour is on fire! Fire, FIRE."),
            said("fire at the harbour, 2026 and çedilha"),
            said('{"fire": "çedilha", "text": "the harbour\\nagain"}', "application/json"),
            said('{"text": "bridge"}', "application/json; charset=utf-8"),
            said("bridge", "application/octet-stream"),
            {**said(""), "payload": b"\xff\xfe bridge"},
            {"at": clock("10:00")},
            said("fire", hub="other"),
        ],
    )
    assert rows(view("terms", sources), "hub", "term", "messages") == [
        ("acme", "fire", 2),
        ("acme", "harbour", 3),
        ("acme", "çedilha", 2),
    ]


@pytest.mark.spec("PIPE-03")
def test_a_small_channel_that_wakes_up_trends_and_a_large_one_as_ever_does_not() -> None:
    hours = 10
    messages: list[dict[str, Any]] = []
    for hour in range(hours + 1):
        at = MONDAY + timedelta(hours=hour, minutes=1)
        messages += [{"at": at, "channel": "large", "event": "tick"}] * (20 + hour % 2)
        quiet = 1 if hour < hours else 12
        messages += [{"at": at, "channel": "small", "event": "alarm"}] * quiet
    named = [{**each, "message_id": str(place)} for place, each in enumerate(messages)]
    found = view("trending", silver(messages=named))
    found = found.filter(pc.equal(found["time"], pa.scalar(clock(f"{hours}:00"), TIME)))
    assert rows(found, "kind", "name", "messages", "usual", "score", "rank") == [
        ("channel", "small", 12, 1.0, round(11 / math.sqrt(2), 3), 1),
        ("type", "alarm", 12, 1.0, round(11 / math.sqrt(2), 3), 1),
    ]


def test_channels_count_by_type() -> None:
    sources = silver(
        messages=[
            {"at": clock("10:01"), "event": "a", "size": 1},
            {"at": clock("10:11"), "event": "a", "size": 2},
            {"at": clock("10:01"), "size": 4},
            {"at": clock("10:01"), "channel": None, "receiver": "ann"},
        ],
    )
    assert rows(view("channels", sources), "channel", "event", "messages", "bytes") == [
        ("news", None, 1, 4),
        ("news", "a", 2, 3),
    ]
