"""Payloads as they come in: what their content type claims is checked here, once, so that they
can be spliced unchecked into every delivery afterwards."""

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
"""Readers recurse, and the deeper ones fail. What this hub accepts, all of its clients can read
from wherever they call their decoder, also when it comes inside the envelope of a history page."""
MAX_COMMAND_DEPTH = MAX_JSON_DEPTH + 16
"""Of commands, results and answers to plugins, which hold payloads."""

# Looking for a byte by its number takes a fifth of the time of looking for b"\n".
NEWLINE = ord("\n")
_RETURN = ord("\r")
_BACKSLASH = ord("\\")
_QUOTE = ord('"')

_CURL_DEFAULT = "application/x-www-form-urlencoded"
_JSON_DECODER = msgspec.json.Decoder(msgspec.Raw)
_ANY_DECODER = msgspec.json.Decoder()
_QUOTED = re.compile(rb'"[^"]*"')
_LONG_INTEGER = re.compile(rb"(?<![0-9.])[0-9]{309,}(?![0-9.eE])")
_NUMBER_SHAPE = bytes.maketrans(b"123456789E", b"000000000e")
_MANY_DIGITS = b"0" * 200  # with an exponent of two digits they can be too large
_MAX_DECODED = 300  # a whole decoding costs less there than a search; no integer is too long
_PRINTABLE_ASCII = re.compile("[ -~]*")
_ALL_BUT_MARKS = bytes(set(range(256)) - set(b'[]{}"'))
_STEPS = bytes.maketrans(b"[]{}", b"\x01\xff\x01\xff")  # 255 is -1 as a signed byte


def parse_payload(body: bytes, content_type: str | None) -> tuple[bytes, str]:
    """The payload and content type of an HTTP body.

    A body without a type, or with the type that curl sends unasked, is text if it can be.
    """
    if content_type == JSON:
        return json_text(body), JSON
    if content_type is None or _main_part(content_type) in ("", _CURL_DEFAULT):
        return (body, TEXT) if is_utf8(body) else (body, BINARY)
    return typed_payload(body, content_type)


def typed_payload(body: bytes, content_type: str) -> tuple[bytes, str]:
    """The payload, checked against its content type, and the type in its plain form."""
    if content_type == JSON:
        return json_text(body), JSON
    plain = _plain_content_type(content_type)
    if plain == JSON:
        return json_text(body), JSON
    if is_text(plain) and not is_utf8(body):
        raise InvalidPayload(f"the payload is not UTF-8, but its content type is {content_type}")
    return body, plain


def untouched_payload(body: bytes, content_type: str | None) -> tuple[bytes, str]:
    """The body as it is, to the byte, and its content type: for what is passed on to receivers of
    HTTP requests, who must get what was published.

    The types `application/json` and `text/…` promise that the payload can be spliced into what
    other clients get. Where it cannot, the type is spelt in another way, which means the same in
    HTTP and promises nothing here: those clients get it as base64.
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
    """The JSON text on one line, if it is one. Raises `InvalidPayload`."""
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
        raise InvalidPayload(f"the payload is not JSON: {error}") from None
    except RecursionError:
        raise _too_deep() from None
    return readable_json(body if len(raw) == len(body) else bytes(raw))


def readable_json(text: bytes) -> bytes:
    """Valid JSON that every client can read, on one line: a line break can only be insignificant
    space in it. Raises `InvalidPayload`."""
    if is_deeper(text, MAX_JSON_DEPTH):
        raise _too_deep()
    if len(text) > 3:
        _check_numbers(text)
    return _on_one_line(text)


def _on_one_line(text: bytes) -> bytes:
    if NEWLINE in text or _RETURN in text:
        return text.replace(b"\n", b" ").replace(b"\r", b" ")
    return text


def read_json(decoder: msgspec.json.Decoder[_T], body: bytes, what: str) -> _T:
    """A body that is not a payload but says what to do. Raises `Malformed`."""
    if not is_utf8(body):
        raise Malformed("the body is not UTF-8")
    try:
        return decoder.decode(body)
    except msgspec.DecodeError as error:
        raise Malformed(f"the body is not {what}: {error}") from None
    except RecursionError:
        raise Malformed("the body is nested too deeply") from None


def is_utf8(body: bytes) -> bool:
    if body.isascii():
        return True
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def is_deeper(text: bytes, most: int) -> bool:
    """Whether valid JSON has more than so many levels."""
    return (
        len(text) > 2 * most and text.count(b"[") + text.count(b"{") > most and _depth(text) > most
    )


def _depth(text: bytes) -> int:
    """Counts up at each opening bracket and down at each closing one, in one pass: the time must
    not depend on how a hostile payload nests."""
    marks = _without_escapes(text).translate(None, _ALL_BUT_MARKS).replace(b'""', b"")
    if _QUOTE in marks:  # some strings have brackets in them
        marks = _QUOTED.sub(b"", marks)
    steps = memoryview(marks.translate(_STEPS)).cast("b")
    return max(accumulate(steps), default=0)


def _without_escapes(text: bytes) -> bytes:
    """Every quote that is left begins or ends a string."""
    if _BACKSLASH in text:
        return text.replace(rb"\\", b"").replace(rb"\"", b"")
    return text


def _check_numbers(text: bytes) -> None:
    """Clients hold numbers as 64-bit floats. What is beyond them fails in some decoders, with all
    that came in the same frame, and becomes infinite in others. `text` is valid JSON."""
    if len(text) <= _MAX_DECODED:
        _check_floats(text)
        return
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
    """JSON and text lose their parameters and the kinds of JSON their names: the hub has only one
    way to write each of them. Other types are kept as given."""
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
    """The attributes of a message whose body `parse_payload` reads, with the spelling of its
    content type. Raises `InvalidPayload`."""
    if content_type is None or _main_part(content_type) in ("", _CURL_DEFAULT):
        return attributes
    return with_media_type(attributes, _plain_content_type(content_type), content_type)


def with_media_type(
    attributes: Attributes | None, content_type: str, given: str | None
) -> Attributes | None:
    """The attributes of a message that keeps its content type under another spelling than the one
    that its publisher gave."""
    spelt = (given or "").strip()
    if not spelt or spelt == content_type:
        return attributes
    return msgspec.structs.replace(attributes or Attributes(), media_type=spelt)
