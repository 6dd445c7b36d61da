"""Payloads that come in over HTTP and the check of JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import cycle, islice
from math import isfinite

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hubbub.domain.errors import InvalidPayload
from hubbub.domain.messages import BINARY, JSON, TEXT
from hubbub.domain.payloads import (
    MAX_JSON_DEPTH,
    json_text,
    parse_payload,
    untouched_payload,
)
from hubbub.protocols.json.payloads import write_payload

NESTINGS: list[Callable[[object], object]] = [
    lambda inner: [inner],
    lambda inner: {"]": inner},
    lambda inner: ["[{", inner, []],
    lambda inner: {'\\"[': inner, "": "\\"},
]


@pytest.mark.parametrize(
    ("body", "content_type", "expected"),
    [
        (b"hi", None, (b"hi", TEXT)),
        (b"hi", "", (b"hi", TEXT)),
        (b"hi", "application/x-www-form-urlencoded", (b"hi", TEXT)),
        (b"hi", "Application/X-WWW-Form-URLencoded; charset=utf-8", (b"hi", TEXT)),
        (b"\xff", None, (b"\xff", BINARY)),
        (b"\xff", "application/x-www-form-urlencoded", (b"\xff", BINARY)),
        ("é".encode(), "text/plain", ("é".encode(), TEXT)),
        (b"<p>", "Text/HTML; charset=utf-8", (b"<p>", "text/html")),
        (b' {"a":\n1} ', "application/json", (b'{"a": 1}', JSON)),
        (b"1", "application/JSON; charset=utf-8", (b"1", JSON)),
        (b"1", "application/problem+json", (b"1", JSON)),
        (b"\xff", "image/png", (b"\xff", "image/png")),
        (b"\xff", "multipart/x; boundary=Ab", (b"\xff", "multipart/x; boundary=Ab")),
    ],
)
@pytest.mark.spec("LIVE-02")
def test_a_body_becomes_what_its_content_type_says(
    body: bytes, content_type: str | None, expected: tuple[bytes, str]
) -> None:
    assert parse_payload(body, content_type) == expected


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"\xff", "text/plain"),
        (b"", "application/json"),
        (b"nope", "application/json"),
        (b"1 2", "application/json"),
        (b'"\xff"', "application/json"),
        (b'"\\ud800"', "application/json"),
        (b"NaN", "application/ld+json"),
        (b"", "x" * 256),
        (b"", "a/\x00"),
        (b"", "a/é"),
        (b"[" * 100_000, "application/json"),
        (b"[" * (MAX_JSON_DEPTH + 1) + b"]" * (MAX_JSON_DEPTH + 1), "application/json"),
    ],
)
def test_a_body_that_is_not_what_it_claims_is_refused(body: bytes, content_type: str) -> None:
    with pytest.raises(InvalidPayload) as refused:
        parse_payload(body, content_type)
    assert len(refused.value.message) < 200


@settings(max_examples=100)
@given(
    st.recursive(
        st.none() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
        lambda inner: st.lists(inner) | st.dictionaries(st.text('[]{}"\\\n a'), inner),
    ),
    st.sampled_from([None, 0, 2, "\t", "\r"]),
)
def test_json_keeps_its_value_and_fits_on_one_line(value: object, indent: str | int | None) -> None:
    line = json_text(json.dumps(value, indent=indent, ensure_ascii=False).encode())

    assert b"\n" not in line
    assert b"\r" not in line
    assert json.loads(line) == value


@settings(max_examples=200)
@given(
    st.lists(st.text('[]{}"\\n,', max_size=8), max_size=6),
    st.lists(st.sampled_from(NESTINGS), min_size=1, max_size=6),
    st.sampled_from([-1, 0, 1]),
)
def test_depth_is_counted_outside_of_strings(
    strings: list[str], nestings: list[Callable[[object], object]], beyond: int
) -> None:
    value: object = strings
    for nest in islice(cycle(nestings), MAX_JSON_DEPTH - 1 + beyond):
        value = nest(value)
    text = json.dumps(value).encode()

    if beyond > 0:
        with pytest.raises(InvalidPayload, match="nested"):
            json_text(text)
    else:
        assert json_text(text) == text


@pytest.mark.parametrize(
    "number",
    [
        "1e999",
        "-1E+309",
        "1.8e308",
        "1e0000000000999",
        "9" * 310,
        "-" + "9" * 5000,
        "9" * 250 + "e99",
        "1" * 320 + ".5",
    ],
)
@pytest.mark.parametrize("around", ["@", '{"a":[@,"]\\""]}', '{"e000":[1,\n@ ]}'])
@pytest.mark.spec("SEC-01")
def test_a_number_that_no_client_can_hold_is_refused(number: str, around: str) -> None:
    with pytest.raises(InvalidPayload, match="64-bit float"):
        json_text(around.replace("@", number).encode())


@pytest.mark.parametrize(
    "number",
    [
        "1.7e308",
        "1e-999",
        "0e999",
        str(2**1023),
        "0." + "1" * 5000,
        '"1e999"',
        '"\\"1e999"',
        '{"' + "9" * 400 + '":1}',
    ],
)
def test_numbers_in_range_and_digits_in_strings_are_taken(number: str) -> None:
    assert json_text(number.encode()) == number.encode()


@settings(max_examples=300)
@given(
    st.lists(
        st.from_regex(
            r"-?(0|[1-9][0-9]{0,320})(\.[0-9]{1,4})?([eE][+-]?[0-9]{1,4})?", fullmatch=True
        )
    )
)
@pytest.mark.spec("SEC-01")
def test_what_is_taken_every_decoder_reads_without_infinity(numbers: list[str]) -> None:
    text = f"[{','.join(numbers)}]".encode()
    finite = all(isfinite(float(number)) for number in numbers)
    try:
        json_text(text)
    except InvalidPayload:
        assert not finite
    else:
        assert finite
        msgspec.json.decode(text)


def test_brackets_that_do_not_nest_are_not_counted() -> None:
    flat = json.dumps([["[[[", '\\"{{'] for _ in range(10 * MAX_JSON_DEPTH)]).encode()

    assert json_text(flat) == flat


def test_a_string_of_brackets_has_no_depth() -> None:
    text = b'"' + b"[" * 1000 + b'"'

    assert json_text(text) == text


def test_json_of_only_brackets_is_checked_in_one_pass() -> None:
    inner = b"[" * (MAX_JSON_DEPTH - 1) + b"]" * (MAX_JSON_DEPTH - 1)
    hostile = b"[" + b",".join([inner] * 1000) + b"]"

    assert json_text(hostile) == hostile


@pytest.mark.parametrize(
    ("body", "content_type", "kept"),
    [
        (b"hi\r\n", None, TEXT),
        (b"hi", "application/x-www-form-urlencoded", TEXT),
        (b"\xff", None, BINARY),
        (b"<p>", "Text/HTML; charset=utf-8", "text/html; charset=utf-8"),
        ("é".encode("latin-1"), "text/xml;charset=iso-8859-1", "Text/xml;charset=iso-8859-1"),
        (b'{"a":1}', "application/json", JSON),
        (b'{"a":1}', 'application/json; charset="UTF-8"', JSON),
        (b'{"a":1}', "application/json; version=2", "application/json; version=2"),
        (b'{\n"a": 1}\n', "application/json", "Application/json"),
        (b"{broken", "application/json", "Application/json"),
        (b'{"a":1}', "application/feed+json", "application/feed+json"),
        (b"<feed/>", "application/atom+xml", "application/atom+xml"),
    ],
)
@pytest.mark.spec("WEB-01", "WEB-03")
def test_what_is_passed_on_over_http_keeps_its_bytes_and_the_meaning_of_its_type(
    body: bytes, content_type: str | None, kept: str
) -> None:
    assert untouched_payload(body, content_type) == (body, kept)


@given(
    st.binary(),
    st.sampled_from(
        ["application/json", "APPLICATION/JSON; charset=utf8", "text/plain", "tExt/x; a=b", "a/b"]
    ),
)
@pytest.mark.spec("WEB-01")
def test_whatever_is_passed_on_can_also_be_shown_to_clients_in_json(
    body: bytes, content_type: str
) -> None:
    payload, _ = write_payload(*untouched_payload(body, content_type))

    json.loads(msgspec.json.encode(payload))


@pytest.mark.parametrize("content_type", ["x" * 256, "a/\x00", "a/é"])
def test_a_content_type_that_is_none_is_refused_for_passing_on_too(content_type: str) -> None:
    with pytest.raises(InvalidPayload):
        untouched_payload(b"", content_type)
