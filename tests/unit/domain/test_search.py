"""The words of messages and of queries."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.domain.errors import BadRequest
from hubbub.domain.messages import BINARY, JSON, TEXT
from hubbub.domain.rules import Rules
from hubbub.domain.search import (
    INDEXED_BYTES,
    MAX_MESSAGE_WORDS,
    MAX_QUERY,
    MAX_WORD,
    is_searched,
    phrases_of,
    score,
    words_of,
    words_of_message,
)

pytestmark = pytest.mark.spec("LIVE-24")


@given(st.text())
def test_a_word_holds_nothing_that_an_index_or_a_query_gives_a_meaning(text: str) -> None:
    for word in words_of(text):
        assert 0 < len(word) <= MAX_WORD
        assert not set(word) & set("\x00 \t\n\"'*():^+-{}%_\\&|!<>$#§")


@given(st.text(max_size=MAX_QUERY).filter(lambda text: '"' not in text))
def test_a_text_is_found_by_itself_as_a_phrase(text: str) -> None:
    words = words_of(text)
    if 0 < len(words) <= 16:
        (phrase,) = phrases_of(f'"{text}"'[:MAX_QUERY]) if len(text) < MAX_QUERY - 1 else [words]
        indexed = words_of_message(text.encode("utf-8", "ignore"), TEXT)
        assert list(phrase) == words
        assert score(indexed, (tuple(phrase),)) > 0


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_json_gives_the_words_of_its_values(value: object) -> None:
    expected: list[str] = []

    def collect(each: object) -> None:
        if isinstance(each, dict):
            for inner in each.values():
                collect(inner)
        elif isinstance(each, list):
            for inner in each:
                collect(inner)
        elif isinstance(each, str):
            expected.extend(words_of(each))
        elif isinstance(each, int) and not isinstance(each, bool):
            expected.extend(words_of(str(each)))

    collect(value)
    for ascii_only in (True, False):
        payload = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
        if len(payload) <= INDEXED_BYTES and len(expected) <= MAX_MESSAGE_WORDS:
            assert words_of_message(payload, JSON).split() == expected


@pytest.mark.parametrize(
    "payload",
    [
        b'"' + b'\\"' * INDEXED_BYTES,
        b'"' * INDEXED_BYTES,
        b'"\\' * INDEXED_BYTES,
        b"-1" * INDEXED_BYTES,
        b"[" * INDEXED_BYTES,
        b'{"a":' * INDEXED_BYTES,
        b'"' + b" " * INDEXED_BYTES + b'":' * 9,
        "\ufdfa".encode() * INDEXED_BYTES,
        b"a b " * INDEXED_BYTES,
    ],
)
def test_no_payload_takes_long(payload: bytes) -> None:
    began = time.process_time()
    words = words_of_message(payload, JSON).split()
    words_of_message(payload, TEXT)
    assert time.process_time() - began < 0.5
    assert len(words) <= MAX_MESSAGE_WORDS


def test_what_is_cut_off_is_read_as_far_as_it_goes() -> None:
    payload = json.dumps({"a": "red " * INDEXED_BYTES}).encode()
    words = words_of_message(payload, JSON).split()
    assert set(words) <= {"red", "re", "r"}
    assert len(words) == MAX_MESSAGE_WORDS
    assert words_of_message(b'{"a":"one tw', JSON) == "one tw"
    assert words_of_message(b'{"a":"one \\u00', JSON).split()[0] == "one"


def test_bytes_have_no_words() -> None:
    assert words_of_message(b"red", BINARY) == ""
    assert words_of_message(b"<a>red</a>", "application/xml") == "a red a"


@pytest.mark.parametrize("query", ["", " ", '""', "...", "a" * (MAX_QUERY + 1), "a " * 17])
def test_a_query_without_words_or_with_too_many_is_refused(query: str) -> None:
    with pytest.raises(BadRequest):
        phrases_of(query)


def test_quotation_marks_make_phrases() -> None:
    assert phrases_of('red "the build" red') == (("the", "build"), ("red",))
    assert phrases_of("foo-bar 東京") == (("foo", "bar"), ("東", "京"))
    assert phrases_of('open "end of') == (("end", "of"), ("open",))


def test_the_hubs_own_collections_are_not_searched() -> None:
    rules = Rules(search=True, store=True)
    assert is_searched("news", rules)
    for channel in ("hCommands", "hResults", "hDirectMessages", "comm:log", "hPlugin:visits"):
        assert not is_searched(channel, rules)
    assert not is_searched("news", Rules(search=True))
