"""An application's data as payloads, and back."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.client import Message
from hubbub.client.connection.link import socket_url
from hubbub.client.messages import encode_data
from hubbub.domain.errors import BadRequest, InvalidPayload

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def decoded(payload: bytes, content_type: str) -> object:
    return Message("m", "news", "", payload, content_type, 0, 1, None).data


@given(values | st.binary())
def test_data_comes_back_as_it_went(data: object) -> None:
    assert decoded(*encode_data(data)) == data


def test_bytes_and_texts_may_be_of_any_type() -> None:
    assert encode_data("<p>", "text/html") == (b"<p>", "text/html")
    assert decoded(*encode_data('{"a": 1}', "application/json")) == {"a": 1}


def test_data_that_is_not_json_is_refused_with_the_reason() -> None:
    with pytest.raises(InvalidPayload, match="as JSON"):
        encode_data(object())
    with pytest.raises(InvalidPayload, match="image/png"):
        encode_data({"a": 1}, "image/png")


def test_the_time_of_a_message_is_a_moment() -> None:
    message = Message("m", "news", "", b"", "text/plain", 1_700_000_000_500, 1, None)
    assert message.time == datetime(2023, 11, 14, 22, 13, 20, 500_000, UTC)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("ws://127.0.0.1:8000", "ws://127.0.0.1:8000/v1/hubs/a%2Fb/socket"),
        ("https://example.org/base/", "wss://example.org/base/v1/hubs/a%2Fb/socket"),
        ("localhost:8000", "ws://localhost:8000/v1/hubs/a%2Fb/socket"),
    ],
)
def test_the_address_of_a_hub(url: str, expected: str) -> None:
    assert socket_url(url, "a/b") == expected


@pytest.mark.parametrize("url", ["ftp://host", "ws://", ""])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(BadRequest, match="not the address of a server"):
        socket_url(url, "demo")
