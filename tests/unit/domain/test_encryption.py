"""Encrypted content, against the examples of RFC 8188 and against itself."""

from __future__ import annotations

import base64
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.domain.encryption import decrypt, encrypt
from hubbub.domain.errors import BadRequest

pytestmark = pytest.mark.spec("WEB-02")

KEY = bytes(range(16))


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@pytest.mark.parametrize(
    ("key", "data"),
    [
        (
            "yqdlZ-tYemfogSmv7Ws5PQ",
            "I1BsxtFttlv3u_Oo94xnmwAAEAAA-NAVub2qFgBEuQKRapoZu-IxkIva3MEB1PD-ly8Thjg",
        ),
        (
            "BO3ZVPxUlnLORbVGMpbT1Q",
            "uNCkWiNYzKTnBN9ji3-qWAAAABkCYTHOG8chz_gnvgOqdGYovxyjuqRyJFjEDyoF1Fvkj6hQPdPHI51OEUKEpgz3"
            "SsLWIqS_uA",
        ),
    ],
    ids=["one record", "two records with padding and a key id"],
)
def test_the_examples_of_the_standard_can_be_read(key: str, data: str) -> None:
    assert decrypt(decoded(key), decoded(data)) == b"I am the walrus"


@given(st.binary(max_size=5000), st.binary(min_size=16, max_size=64))
def test_what_was_encrypted_comes_back(body: bytes, key: bytes) -> None:
    data = encrypt(key, os.urandom(16), body)

    assert decrypt(key, data) == body
    if len(body) > 8:
        assert body not in data


@pytest.mark.parametrize("place", [*range(16), *range(20, 38)])
def test_one_bit_that_changed_on_the_way_is_noticed(place: int) -> None:
    """All but the size of records, which says nothing where there is one."""
    data = bytearray(encrypt(KEY, bytes(16), b""))
    assert len(data) == 38
    data[place] ^= 1
    with pytest.raises(BadRequest):
        decrypt(KEY, bytes(data))


@given(st.binary(max_size=100))
def test_nonsense_is_refused(data: bytes) -> None:
    with pytest.raises(BadRequest):
        decrypt(KEY, data)


def test_content_that_was_cut_short_is_refused_wherever_it_was_cut() -> None:
    data = decoded(
        "uNCkWiNYzKTnBN9ji3-qWAAAABkCYTHOG8chz_gnvgOqdGYovxyjuqRyJFjEDyoF1Fvkj6hQPdPHI51OEUKEpgz3"
        "SsLWIqS_uA"
    )
    for size in range(len(data)):
        with pytest.raises(BadRequest):
            decrypt(decoded("BO3ZVPxUlnLORbVGMpbT1Q"), data[:size])
