"""The envelope of a message: bounds of its fields, who may set them, and the time to live."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.domain.envelope import MAX_DEPTH, check_attributes, has_expired
from hubbub.domain.errors import InvalidAttribute, NotPermitted
from hubbub.domain.messages import Attributes, Message
from hubbub.domain.permissions import Identity, Level

ANN = Identity("ann")
SERVICE = Identity(level=Level.SERVICE)


def nested(levels: int) -> Any:
    return {"in": nested(levels - 1)} if levels else 1


@pytest.mark.spec("LIVE-20")
@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("subtype", "", "subtype"),
        ("author", "x" * 257, "author"),
        ("conversation_id", "a\nb", "conversationID"),
        ("refers_to", "", "refersTo"),
        ("language", "\x00", "language"),
        ("delivery_policy", "", "deliveryPolicy"),
        ("receiver", "a\x7f", "receiver"),
        ("priority", 6, "priority"),
        ("priority", -1, "priority"),
        ("relevant_until", -1, "relevantUntil"),
        ("ttl", -1, "ttl"),
        ("ttl", 2**53, "ttl"),
        ("headers", {"k": "x" * 9000}, "headers"),
        ("headers", nested(MAX_DEPTH + 1), "headers"),
        ("headers", nested(400), "headers"),
        ("location", {"k": "x" * 2000}, "location"),
        ("location", nested(MAX_DEPTH + 1), "location"),
    ],
)
def test_a_field_out_of_bounds_is_refused_by_its_name(field: str, value: object, said: str) -> None:
    attributes = msgspec.structs.replace(Attributes(), **{field: value})
    with pytest.raises(InvalidAttribute, match=f"^{said} "):
        check_attributes(attributes, SERVICE)


@pytest.mark.spec("CMD-01")
@pytest.mark.parametrize("place", [{"lat": "1234"}, {"lng": True, "lat": 91}, {"street": ["x"]}])
def test_a_location_is_any_object(place: dict[str, object]) -> None:
    check_attributes(Attributes(location=place), SERVICE)


@pytest.mark.spec("LIVE-20")
def test_everything_within_bounds_passes() -> None:
    check_attributes(
        Attributes(
            subtype="alert",
            author="bob",
            sender="ann",
            receiver="all@acme",
            conversation_id="c-1",
            refers_to="m-1",
            priority=5,
            relevant_until=2**53 - 1,
            ttl=0,
            language="de-AT",
            location={"lat": -90, "lng": 180.0, "name": ["harbour"]},
            headers=nested(MAX_DEPTH),
            delivery_policy="AT_LEAST_ONE",
        ),
        ANN,
    )


@pytest.mark.spec("LIVE-20")
def test_only_a_service_names_another_sender() -> None:
    check_attributes(Attributes(sender="ann"), ANN)
    check_attributes(Attributes(sender="ann"), SERVICE)
    for caller in (ANN, Identity()):
        with pytest.raises(NotPermitted, match="'bob'"):
            check_attributes(Attributes(sender="bob"), caller)


@pytest.mark.spec("LIVE-20")
@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_message_expires_when_its_time_to_live_is_over(ttl: int, age: int) -> None:
    message = Message("1", "h", "c", "e", b"", "text/plain", published_at=1_000_000)
    assert not has_expired(message, 1_000_000 + age)
    message.attributes = Attributes(ttl=ttl)
    assert has_expired(message, 1_000_000 + age) == (0 < ttl <= age)
