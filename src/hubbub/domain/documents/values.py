"""Values of documents: what JSON has, and bytes.

In memory: None, bool, int, float, str, `Bytes`, list and dict. In JSON, bytes are
`{"$bytes":"<base64>"}`; an object whose only member is called `$bytes`, `$$bytes` … is written with
one `$` more. A number that JavaScript would round is refused; one without a fraction is an int.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from typing import Any

import msgspec

from hubbub.domain.errors import HubbubError, InvalidPayload, TooLarge

Value = Any
"""See above; the type checker's words for it would be recursive."""

MAX_INTEGER = 2**53 - 1
_BYTES_NAME = re.compile(r"\$+bytes")
_AS_THEY_ARE = frozenset({str, bool, type(None)})


class Bytes:
    """Bytes in a document: a scalar, equal only to other bytes."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bytes) and other.data == self.data

    def __hash__(self) -> int:
        return hash(self.data)

    def __repr__(self) -> str:
        return f"Bytes({self.data!r})"


class DocumentLimits(msgspec.Struct, frozen=True):
    """Of documents and of the requests that change them; over one is `TooLarge`."""

    document_bytes: int = 1024 * 1024
    """As JSON, with bytes at their own length."""
    request_bytes: int = 256 * 1024
    operations: int = 1_000
    depth: int = 60
    """Lists and objects inside of each other."""
    name_bytes: int = 1024
    """Of the name of a member, in UTF-8."""


NO_LIMITS = DocumentLimits(2**62, 2**62, 2**62, 2**62, 2**62)
"""For what was checked before."""


# -- reading --------------------------------------------------------------------------------------


def decode_json(text: bytes, limits: DocumentLimits) -> Any:
    """JSON that somebody sent, as plain Python. Raises `InvalidPayload` and `TooLarge`. Of a name
    that comes twice in an object, the last value counts, as in browsers."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidPayload(f"not a JSON text: {error}") from None
    except RecursionError:
        raise too_deep(limits.depth) from None


def admit(value: Any, limits: DocumentLimits, room: int) -> Value:
    """The value of a document that plain JSON stands for; `room` is how many levels it may have.
    Changes lists and objects in place. Raises `InvalidPayload` and `TooLarge`."""
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if kind is int or kind is float:
        return _number(value)
    if kind is dict and len(value) == 1 and "$bytes" in value:
        return _bytes(value["$bytes"])
    if room < 1:
        raise too_deep(limits.depth)
    if kind is list:
        for index, item in enumerate(value):
            if type(item) not in _AS_THEY_ARE:
                value[index] = admit(item, limits, room - 1)
        return value
    return _admit_object(value, limits, room)


def _admit_object(value: dict[str, Any], limits: DocumentLimits, room: int) -> Value:
    if len(value) == 1:
        ((name, item),) = value.items()
        if _BYTES_NAME.fullmatch(name):
            value = {name[1:]: item}
    for name, item in value.items():
        if len(name) * 4 > limits.name_bytes:
            check_name_bytes(name, limits)
        if type(item) not in _AS_THEY_ARE:
            value[name] = admit(item, limits, room - 1)
    return value


def _number(value: int | float) -> int | float:
    if isinstance(value, float):
        if not value.is_integer() or abs(value) > MAX_INTEGER:
            return value
        return int(value)
    if abs(value) > MAX_INTEGER:
        raise InvalidPayload(
            f"the number {str(value)[:40]} lies beyond {MAX_INTEGER}, where browsers round; write "
            "it as text"
        )
    return value


def _bytes(text: object) -> Bytes:
    try:
        if isinstance(text, str):
            return Bytes(b64decode(text, validate=True))
    except (Base64Error, ValueError):
        pass
    raise InvalidPayload('"$bytes" stands for bytes and takes base64 with padding, like "aGk="')


def check_name_bytes(name: str, limits: DocumentLimits) -> None:
    if len(name.encode()) > limits.name_bytes:
        raise TooLarge(
            f"the name {name[:20]!r}… of a member has {len(name.encode())} bytes; at most "
            f"{limits.name_bytes} are allowed"
        )


def too_deep(depth: int) -> HubbubError:
    return TooLarge(f"a document may have {depth} levels of lists and objects; this has more")


def stored_value(text: bytes) -> Value:
    """The value of a JSON text that `value_json` wrote."""
    value = msgspec.json.decode(text)
    return admit_all(value) if b'bytes"' in text else value


def admit_all(value: Any) -> Value:
    """As `admit`, for what was checked before."""
    if type(value) is list:
        return [admit_all(item) for item in value]
    if type(value) is not dict:
        return value
    if len(value) == 1:
        ((name, item),) = value.items()
        if name == "$bytes":
            return Bytes(b64decode(item))
        if _BYTES_NAME.fullmatch(name):
            return {name[1:]: admit_all(item)}
    return {name: admit_all(item) for name, item in value.items()}


# -- writing --------------------------------------------------------------------------------------


def _write_bytes(value: object) -> object:
    assert isinstance(value, Bytes)
    return {"$bytes": b64encode(value.data).decode()}


_encode = msgspec.json.Encoder(enc_hook=_write_bytes).encode


def value_json(value: Value, escapes: bool = True) -> bytes:
    """The JSON text. `escapes`: an object in it may have to be written with one `$` more."""
    return _encode(_escaped(value) if escapes else value)


def text_json(text: str) -> bytes:
    return _encode(text)


def is_bytes_name(name: str) -> bool:
    """Whether an object with this member alone is written with one `$` more."""
    return name.endswith("bytes") and _BYTES_NAME.fullmatch(name) is not None


def has_bytes_name(value: Value) -> bool:
    """Whether any object in it has a member with such a name."""
    if type(value) is list:
        return any(has_bytes_name(item) for item in value)
    if type(value) is dict:
        return any(is_bytes_name(name) or has_bytes_name(item) for name, item in value.items())
    return False


def _escaped(value: Value) -> Any:
    if type(value) is list:
        return [_escaped(item) for item in value]
    if type(value) is not dict:
        return value
    if len(value) == 1:
        ((name, item),) = value.items()
        if is_bytes_name(name):
            return {f"${name}": _escaped(item)}
    return {name: _escaped(item) for name, item in value.items()}


# -- measures, copies, comparison -----------------------------------------------------------------


def size_of(value: Value) -> int:
    """The bytes of its JSON text, with bytes at their own length."""
    more = 0

    def count(found: object) -> None:
        nonlocal more
        assert isinstance(found, Bytes)
        more += len(found.data) - len(b"null")

    return len(msgspec.json.encode(value, enc_hook=count)) + more


def depth_of(value: Value) -> int:
    """Levels of lists and objects; 0 for a scalar."""
    if type(value) is list:
        return 1 + max(map(depth_of, value), default=0)
    if type(value) is dict:
        return 1 + max(map(depth_of, value.values()), default=0)
    return 0


def copy_of(value: Value) -> Value:
    """A copy that shares no list or object with the original."""
    if type(value) is list:
        return [copy_of(item) for item in value]
    if type(value) is dict:
        return {name: copy_of(item) for name, item in value.items()}
    return value


def equal(one: Value, other: Value) -> bool:
    """As RFC 6902, 4.6: numbers by value, objects without order; `true` is not 1."""
    if type(one) is list:
        return (
            type(other) is list
            and len(one) == len(other)
            and all(equal(a, b) for a, b in zip(one, other, strict=True))
        )
    if type(one) is dict:
        return (
            type(other) is dict
            and one.keys() == other.keys()
            and all(equal(item, other[name]) for name, item in one.items())
        )
    return (type(one) is bool) == (type(other) is bool) and bool(one == other)
