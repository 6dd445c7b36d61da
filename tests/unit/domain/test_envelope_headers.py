"""The rarer fields of the envelope in HTTP headers, out and in again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.domain.envelope import NUMBERS, OBJECTS, TEXTS
from hubbub.domain.envelope_headers import from_headers, security_token, to_headers
from hubbub.domain.errors import InvalidAttribute
from hubbub.domain.messages import Attributes

_TEXT = st.none() | st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=40)
_NUMBER = st.none() | st.integers(0, 2**53 - 1)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
_OBJECT = st.none() | st.dictionaries(st.text(max_size=5), _JSON, max_size=4)
_ATTRIBUTES = st.builds(
    Attributes,
    **dict.fromkeys(TEXTS, _TEXT),
    **dict.fromkeys(NUMBERS, _NUMBER),
    **dict.fromkeys(OBJECTS, _OBJECT),
)


@pytest.mark.spec("LIVE-20")
@given(_ATTRIBUTES)
def test_every_field_survives_headers_that_are_plain_ascii(attributes: Attributes) -> None:
    headers = to_headers(attributes)
    assert all(value.isascii() and value.isprintable() for _, value in headers)
    sent = {name.lower().encode(): value.encode() for name, value in headers}
    assert from_headers(sent) == (None if attributes == Attributes() else attributes)


@pytest.mark.spec("LIVE-20")
def test_a_text_may_also_be_plain_utf8() -> None:
    sent = {b"hubbub-author": "Änne".encode(), b"hubbub-refers-to": b"50%25"}
    assert from_headers(sent) == Attributes(author="Änne", refers_to="50%")


@pytest.mark.parametrize("name", [b"hubbub-topic-key", b"hubbub-message-id", b"content-type"])
def test_other_headers_are_not_fields(name: bytes) -> None:
    assert from_headers({name: b"x"}) is None


@pytest.mark.spec("LIVE-20")
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        (b"hubbub-ttl", b"-1", "ttl"),
        (b"hubbub-ttl", b"1.5", "ttl"),
        (b"hubbub-ttl", b"", "ttl"),
        (b"hubbub-ttl", b"9" * 19, "ttl"),
        (b"hubbub-priority", b"high", "priority"),
        (b"hubbub-relevant-until", "٣".encode(), "relevantUntil"),
        (b"hubbub-author", b"%FF", "author"),
        (b"hubbub-headers", b"[1]", "headers"),
        (b"hubbub-headers", b"{", "headers"),
        (b"hubbub-headers", b'{"a":' * 5000, "headers"),
        (b"hubbub-location", b"12,13", "location"),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_name(name: bytes, value: bytes, said: str) -> None:
    with pytest.raises(InvalidAttribute, match=f"^{said} "):
        from_headers({name: value})


def test_the_security_token_is_no_attribute() -> None:
    sent: dict[bytes, Any] = {b"hubbub-security-token": b"s3cret"}
    assert (from_headers(sent), security_token(sent)) == (None, "s3cret")
