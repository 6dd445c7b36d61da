"""Names as words of a NATS subject: none can mean more than itself."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hubbub.domain.subjects import word, words

name = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
quick = settings(max_examples=200)


@pytest.mark.spec("RPC-01")
@quick
@given(name)
def test_a_word_is_one_word_without_wildcards(text: str) -> None:
    encoded = word(text)
    assert encoded.isascii()
    assert encoded.isprintable()
    assert not set(encoded) & set(" .*>$")


@pytest.mark.spec("RPC-01")
@quick
@given(name)
def test_words_are_never_empty_and_hold_no_wildcards(text: str) -> None:
    parts = words(text).split(".")
    assert all(parts)
    assert not set("".join(parts)) & set(" *>$")


@pytest.mark.spec("RPC-01")
@quick
@given(name, name)
def test_different_names_are_different_subjects(one: str, other: str) -> None:
    assert (word(one) == word(other)) == (one == other)
    assert (words(one) == words(other)) == (one == other)


@pytest.mark.spec("RPC-01")
def test_dots_of_a_method_separate_words() -> None:
    assert words("cart.add") == "cart.add"
    assert word("cart.add") == "cart%2Eadd"
    assert words("a..b") == "a%2E%2Eb"
