"""Payload validation at ingress. A payload is checked once against its content type, so that
deliveries can splice it into messages unchecked."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import accumulate
from math import isinf
from typing import TypeVar

import msgspec

from hubbub.domain.errors import InvalidPayload, Malformed
from hubbub.domain.messages import BINARY, JSON, TEXT, Attributes, is_text

_T = TypeVar("_T")
MAX_CONTENT_TYPE_CHARS = 255
MAX_JSON_DEPTH = 256
"""Decoders recurse and fail beyond some depth. Every client can read what this hub accepts, from
any call depth, even inside the envelope of a history page."""
MAX_COMMAND_DEPTH = MAX_JSON_DEPTH + 16
"""The depth of commands, results and plugins' answers, which contain payloads."""

# Looking for a byte by its number takes a fifth of the time of looking for b"\n".
NEWLINE = ord("\n")
_RETURN = ord("\r")
_BACKSLASH = ord("\\")
_QUOTE = ord('"')

_CURL_DEFAULT = "application/x-www-form-urlencoded"
_JSON_DECODER = msgspec.json.Decoder(msgspec.Raw)
_ANY_DECODER = msgspec.json.Decoder()
_QUOTED = re.compile(rb'"[^"]*"')
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_LONG_INTEGER = re.compile(rb"(?<![0-9.])[0-9]{309,}(?![0-9.eE])")
_NUMBER_SHAPE = bytes.maketrans(b"123456789E", b"000000000e")
_MANY_DIGITS = b"0" * 200  # with an exponent of two digits they can be too large
_MAX_DECODED = 300  # a whole decoding costs less there than a search; no integer is too long
_PRINTABLE_ASCII = re.compile("[ -~]*")
_ALL_BUT_MARKS = bytes(set(range(256)) - set(b'[]{}"'))
_STEPS = bytes.maketrans(b"[]{}", b"\x01\xff\x01\xff")  # 255 is -1 as a signed byte


def parse_payload(body: bytes, content_type: str | None) -> tuple[bytes, str]:
    """Returns payload and content type of an HTTP body.

    A body without a content type, or with curl's default type, becomes text if it is valid text.
    """
    if content_type == JSON:
        return json_text(body), JSON
    if content_type is None or _main_part(content_type) in ("", _CURL_DEFAULT):
        return (body, TEXT) if is_utf8(body) else (body, BINARY)
    return typed_payload(body, content_type)


def typed_payload(body: bytes, content_type: str) -> tuple[bytes, str]:
    """Returns the checked payload and its normalized content type."""
    if content_type == JSON:
        return json_text(body), JSON
    plain = _plain_content_type(content_type)
    if plain == JSON:
        return json_text(body), JSON
    if is_text(plain) and not is_utf8(body):
        raise InvalidPayload(f"the payload is not UTF-8, but its content type is {content_type}")
    return body, plain


def untouched_payload(body: bytes, content_type: str | None) -> tuple[bytes, str]:
    """Returns the body unchanged, and its content type: for webhooks' receivers, who must get the
    published bytes.

    `application/json` and `text/…` promise that the payload can be spliced into messages to other
    clients. If it cannot, the type is written in an equivalent form without that promise, and those
    clients receive base64.
    """
    if content_type is None or _main_part(content_type) in ("", _CURL_DEFAULT):
        return (body, TEXT) if is_utf8(body) else (body, BINARY)
    _plain_content_type(content_type)  # refuses what is no content type
    kept, main = content_type.strip(), _main_part(content_type)
    if main == JSON and _has_no_parameters_but_utf8(kept):
        return body, JSON if _is_plain_json(body) else "Application/json"
    if is_text(main):
        return body, (main if is_utf8(body) else main.capitalize()) + kept[len(main) :]
    return body, kept


def _has_no_parameters_but_utf8(content_type: str) -> bool:
    rest = content_type.partition(";")[2].strip().lower().replace('"', "")
    return rest in ("", "charset=utf-8", "charset=utf8")


def _is_plain_json(body: bytes) -> bool:
    try:
        return json_text(body) == body
    except InvalidPayload:
        return False


def json_text(body: bytes) -> bytes:
    """Returns the JSON text on one line. Raises `InvalidPayload` if it is not JSON."""
    if len(body) <= _MAX_DECODED and body.isascii() and body[:1] > b" " < body[-1:]:
        try:
            _ANY_DECODER.decode(body)
        except (msgspec.DecodeError, RecursionError):
            pass  # what is wrong with it is said below
        else:
            return body if NEWLINE not in body and _RETURN not in body else _on_one_line(body)
    if not body.isascii() and not is_utf8(body):
        raise InvalidPayload("the payload is not UTF-8, but its content type is application/json")
    try:
        raw = _JSON_DECODER.decode(body)
    except msgspec.DecodeError as error:
        raise InvalidPayload(f"the payload is not JSON: {json_fault(body, error)}") from None
    except RecursionError:
        raise _too_deep() from None
    return readable_json(body if len(raw) == len(body) else bytes(raw))


def readable_json(text: bytes) -> bytes:
    """Returns valid JSON that every client can read, on one line: a line break can only be
    insignificant whitespace. Raises `InvalidPayload`."""
    if len(text) <= _MAX_DECODED:  # too short to be too deep
        try:
            _ANY_DECODER.decode(text)
        except msgspec.DecodeError:
            raise _too_large() from None
        except RecursionError:
            raise _too_deep() from None
        return text if NEWLINE not in text and _RETURN not in text else _on_one_line(text)
    if is_deeper(text, MAX_JSON_DEPTH):
        raise _too_deep()
    _check_numbers(text)
    return _on_one_line(text)


def _on_one_line(text: bytes) -> bytes:
    if NEWLINE in text or _RETURN in text:
        return text.replace(b"\n", b" ").replace(b"\r", b" ")
    return text


def read_json(decoder: msgspec.json.Decoder[_T], body: bytes, what: str) -> _T:
    """Decodes the body of a control request. Raises `Malformed`."""
    if not is_utf8(body):
        raise Malformed("the body is not UTF-8")
    try:
        return decoder.decode(body)
    except msgspec.DecodeError as error:
        raise Malformed(f"the body is not {what}: {json_fault(body, error)}") from None
    except RecursionError:
        raise Malformed("the body is nested too deeply") from None


def json_fault(text: bytes, error: msgspec.DecodeError) -> str:
    """Why a text could not be decoded: names a lone surrogate, whose position and kind the
    decoder's error does not tell."""
    mended = without_surrogates(text)
    if mended != text:
        try:
            _JSON_DECODER.decode(mended)
        except (msgspec.DecodeError, RecursionError):
            return str(error)
        return (
            "a text in it holds a lone surrogate, a \\ud800-\\udfff escape without its other half; "
            "send whole characters"
        )
    return str(error)


def without_surrogates(text: bytes) -> bytes:
    """A JSON text without escapes of surrogates, those of whole pairs included: what is left can be
    decoded."""
    return _SURROGATE.sub(rb"\\ufffd", text)


def is_utf8(body: bytes) -> bool:
    if body.isascii():
        return True
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def is_deeper(text: bytes, most: int) -> bool:
    """Whether valid JSON is nested deeper than `most`."""
    return (
        len(text) > 2 * most and text.count(b"[") + text.count(b"{") > most and _depth(text) > most
    )


def _depth(text: bytes) -> int:
    """Counts opening and closing brackets in one pass, so that the time does not depend on how a
    hostile payload is nested."""
    marks = _without_escapes(text).translate(None, _ALL_BUT_MARKS).replace(b'""', b"")
    if _QUOTE in marks:  # some strings have brackets in them
        marks = _QUOTED.sub(b"", marks)
    steps = memoryview(marks.translate(_STEPS)).cast("b")
    return max(accumulate(steps), default=0)


def _without_escapes(text: bytes) -> bytes:
    """Removes escapes; every remaining quote begins or ends a string."""
    if _BACKSLASH in text:
        return text.replace(rb"\\", b"").replace(rb"\"", b"")
    return text


def _check_numbers(text: bytes) -> None:
    """Rejects numbers beyond 64-bit floats: some decoders fail on them and lose the whole frame,
    others read infinity. `text` is valid JSON."""
    shape = text.translate(_NUMBER_SHAPE)
    long = _MANY_DIGITS in shape
    if long or b"e000" in shape or b"e+000" in shape:
        _check_floats(text)
    if long:
        _check_integers(_QUOTED.sub(b"", _without_escapes(text)))


def _check_floats(text: bytes) -> None:
    try:
        _ANY_DECODER.decode(text)
    except msgspec.DecodeError:
        raise _too_large() from None
    except RecursionError:
        raise _too_deep() from None


def _check_integers(outside_of_strings: bytes) -> None:
    if any(isinf(float(digits)) for digits in _LONG_INTEGER.findall(outside_of_strings)):
        raise _too_large()


def _too_large() -> InvalidPayload:
    return InvalidPayload("the payload has a number that is larger than a 64-bit float can be")


def _too_deep() -> InvalidPayload:
    return InvalidPayload(f"the payload is JSON nested deeper than {MAX_JSON_DEPTH} levels")


@lru_cache(maxsize=1024)
def _main_part(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


@lru_cache(maxsize=1024)
def _plain_content_type(content_type: str) -> str:
    """Normalizes a content type: JSON and text types lose their parameters, and JSON subtypes
    become `application/json`. Other types are unchanged."""
    if len(content_type) > MAX_CONTENT_TYPE_CHARS:
        raise InvalidPayload(
            f"the content type {content_type[:20]!r}… has {len(content_type)} characters; "
            f"at most {MAX_CONTENT_TYPE_CHARS} are allowed"
        )
    if not _PRINTABLE_ASCII.fullmatch(content_type):
        raise InvalidPayload(f"the content type {content_type!r} is not printable ASCII")
    main = _main_part(content_type)
    if main == JSON or main.endswith("+json"):
        return JSON
    return main if is_text(main) else content_type.strip() or BINARY


def as_spelt(attributes: Attributes | None, content_type: str | None) -> Attributes | None:
    """Keeps the publisher's spelling of the content type for a body that `parse_payload` reads.
    Raises `InvalidPayload`."""
    if content_type is None or _main_part(content_type) in ("", _CURL_DEFAULT):
        return attributes
    return with_media_type(attributes, _plain_content_type(content_type), content_type)


def with_media_type(
    attributes: Attributes | None, content_type: str, given: str | None
) -> Attributes | None:
    """Keeps the publisher's spelling of the content type if it differs from the message's."""
    spelt = (given or "").strip()
    if not spelt or spelt == content_type:
        return attributes
    return msgspec.structs.replace(attributes or Attributes(), media_type=spelt)
