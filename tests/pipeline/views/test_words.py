"""Words are found byte by byte in plain texts, and must be those that a pattern would find."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.pipeline.transforms.words import MAX_CHARACTERS, MIN_CHARACTERS, words_of

pytestmark = pytest.mark.timeout(300)


def words_one_by_one(text: str) -> list[str]:
    spaced = "".join(each if each.isalnum() else " " for each in text.lower())
    return [word for word in spaced.split() if MIN_CHARACTERS <= len(word) <= MAX_CHARACTERS]


plain = st.text(st.sampled_from("abXYZ019 ,.-_\n\x7f"), max_size=90)
accented = st.text(st.sampled_from("aéÇ日x ,.-"), max_size=90)


@given(st.lists(st.one_of(st.none(), plain, accented)), st.integers(0, 3))
def test_every_text_has_the_words_that_a_reader_finds(
    texts: list[str | None], skipped: int
) -> None:
    found = words_of(pa.array(texts, pa.string()).slice(skipped))
    expected = sorted(
        (place, word)
        for place, text in enumerate(texts[skipped:])
        for word in words_one_by_one(text or "")
    )
    said = found.said
    said.validate(full=True)
    assert sorted(zip(found.text.tolist(), said.to_pylist(), strict=True)) == expected
