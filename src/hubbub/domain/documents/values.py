"""Values of documents: JSON values and bytes.

In memory: None, bool, int, float, str, `Bytes`, list and dict. In JSON, bytes are
`{"$bytes":"<base64>"}`; an object whose only member is named `$bytes`, `$$bytes` … is escaped with
one more `$`. A number that JavaScript would round is rejected. A number without a fraction is an
int up to `MAX_INTEGER`, a float beyond: JavaScript writes such a double with digits alone.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import msgspec

from hubbub.domain.documents.steps import STEP, Steps, finish
from hubbub.domain.errors import HubbubError, InvalidPayload, TooLarge
from hubbub.domain.payloads import json_fault

Value = Any
"""A document value as described above; a recursive type would be more exact."""

MAX_INTEGER = 2**53 - 1
_EXPONENT_FROM = 10**21
"""JavaScript writes doubles from here on with an exponent."""
_BYTES_NAME = re.compile(r"\$+bytes")
_AS_THEY_ARE = frozenset({str, bool, type(None)})


class Bytes:
    """A binary value in a document: a scalar, equal only to the same bytes."""

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
    """Limits of documents and of change requests; exceeding one raises `TooLarge`."""

    document_bytes: int = 1024 * 1024
    """The size of the JSON text, with bytes at their own length."""
    request_bytes: int = 256 * 1024
    operations: int = 1_000
    depth: int = 60
    """Nesting depth of lists and objects."""
    name_bytes: int = 1024
    """The longest name of a member, in UTF-8."""

    @property
    def visits(self) -> int:
        """The most values that one change may visit: as many as the largest document can have."""
        return self.document_bytes // 2


NO_LIMITS = DocumentLimits(2**62, 2**62, 2**62, 2**62, 2**62)
"""For values that were checked before."""


# -- reading --------------------------------------------------------------------------------------


def decode_json(text: bytes, limits: DocumentLimits) -> Any:
    """Decodes JSON from a client. If a name occurs twice in an object, the last value counts, as in
    browsers. Raises `InvalidPayload` and `TooLarge`."""
    try:
        return msgspec.json.decode(text)
    except UnicodeDecodeError as error:
        raise InvalidPayload(f"not a JSON text: {error}") from None
    except msgspec.DecodeError as error:
        raise InvalidPayload(f"not a JSON text: {json_fault(text, error)}") from None
    except RecursionError:
        raise too_deep(limits.depth) from None


def admit(value: Any, limits: DocumentLimits, room: int) -> Value:
    """Converts plain JSON to a document value; `room` is the nesting depth that is left. Changes
    lists and objects in place. Raises `InvalidPayload` and `TooLarge`."""
    return finish(admit_steps(value, limits, room))


def admit_steps(value: Any, limits: DocumentLimits, room: int) -> Steps[Value]:
    if type(value) in _AS_THEY_ARE:
        return value
    holder = [value]
    waiting: list[tuple[Any, int]] = [(holder, room)]
    done = 0
    while waiting:
        container, room = waiting.pop()
        done += 1
        if done % STEP == 0:
            yield
        for key, item in _entries(container):
            done += 1
            if done % STEP == 0:
                yield
            kind = type(item)
            if kind is dict or kind is list:
                found = item if kind is list else _members(item, limits)
                if found is not item:
                    container[key] = found
                if type(found) is not Bytes:
                    if room < 1:
                        raise too_deep(limits.depth)
                    waiting.append((found, room - 1))
            elif kind is int:
                if not -MAX_INTEGER <= item <= MAX_INTEGER:
                    container[key] = _double(item)
            elif kind is float and item.is_integer() and abs(item) <= MAX_INTEGER:
                container[key] = int(item)
    return holder[0]


def _entries(container: Any) -> Iterator[tuple[Any, Any]]:
    """Keys and values of a list or an object; the caller may replace values meanwhile."""
    return iter(container.items()) if type(container) is dict else enumerate(container)


def _members(found: dict[str, Any], limits: DocumentLimits) -> dict[str, Any] | Bytes:
    """Returns the object, or the bytes, that a JSON object stands for."""
    for name in found:
        if len(name) * 4 > limits.name_bytes:
            check_name_bytes(name, limits)
    if len(found) == 1:
        ((name, item),) = found.items()
        if name == "$bytes":
            return _bytes(item)
        if is_bytes_name(name):
            return {name[1:]: item}
    return found


def _double(value: int) -> float:
    """The double that an integer beyond `MAX_INTEGER` stands for: the integer is its exact value or
    the digits with which JavaScript writes it. Raises `InvalidPayload` for any other integer."""
    if abs(value) < _EXPONENT_FROM:
        found = float(value)
        if value in (int(found), int(Decimal(repr(found)))):
            return found
    raise InvalidPayload(
        f"the number {str(value)[:40]} lies beyond {MAX_INTEGER}, where browsers round; write "
        "it as text"
    )


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
    """Parses a JSON text that `value_json` wrote."""
    return finish(stored_value_steps(text))


def stored_value_steps(text: bytes) -> Steps[Value]:
    value = msgspec.json.decode(text)
    if b'bytes":' in text:
        value = yield from admit_steps(value, NO_LIMITS, NO_LIMITS.depth)
    return value


# -- writing --------------------------------------------------------------------------------------


def _write_bytes(value: object) -> object:
    assert isinstance(value, Bytes)
    return {"$bytes": b64encode(value.data).decode()}


_encode = msgspec.json.Encoder(enc_hook=_write_bytes).encode


def value_json(value: Value, escapes: bool = True) -> bytes:
    """The JSON text. `escapes`: some object in it may need an escaping `$`."""
    return finish(value_json_steps(value, escapes))


def value_json_steps(value: Value, escapes: bool = True) -> Steps[bytes]:
    """`value` may change once the first step is done."""
    if escapes and may_have_bytes_name(value):
        value = yield from _escape(copy_of(value))
    return _encode(value)


def text_json(text: str) -> bytes:
    return _encode(text)


def is_bytes_name(name: str) -> bool:
    """Whether an object with only this member is escaped with a `$`."""
    return name.endswith("bytes") and _BYTES_NAME.fullmatch(name) is not None


def may_have_bytes_name(value: Value) -> bool:
    """Whether any object in the value may have a member that needs an escaping `$`."""
    return measured(value)[1]


def _escape(value: Value) -> Steps[Any]:
    """Escapes in place."""
    holder = [value]
    waiting: list[Any] = [holder]
    done = 0
    while waiting:
        container = waiting.pop()
        done += 1
        if done % STEP == 0:
            yield
        for key, item in _entries(container):
            done += 1
            if done % STEP == 0:
                yield
            kind = type(item)
            if kind is dict and len(item) == 1:
                ((name, inner),) = item.items()
                if is_bytes_name(name):
                    container[key] = item = {f"${name}": inner}
            if kind is dict or kind is list:
                waiting.append(item)
    return holder[0]


# -- measures, copies, comparison -----------------------------------------------------------------


def size_of(value: Value) -> int:
    """The length of the value's JSON text, with bytes at their own length."""
    return measured(value)[0]


def measured(value: Value) -> tuple[int, bool]:
    """Returns the value's size, and whether it may contain a member that needs an escaping `$`."""
    more = 0

    def count(found: object) -> None:
        nonlocal more
        assert isinstance(found, Bytes)
        more += len(found.data) - len(b"null")

    text = msgspec.json.encode(value, enc_hook=count)
    return len(text) + more, b'$bytes":' in text  # in a text, a quote is written with a backslash


def depth_of(value: Value) -> int:
    """Nesting depth; 0 for a scalar."""
    return finish(depth_steps(value))[0]


def depth_steps(value: Value) -> Steps[tuple[int, int]]:
    """Returns the nesting depth and the number of visited values."""
    found = [value] if type(value) is list or type(value) is dict else []
    depth, seen = 0, 1
    while found:
        depth += 1
        above, found = found, []
        for opened, container in enumerate(above, 1):
            if opened % STEP == 0:
                yield
            for item in container.values() if type(container) is dict else container:
                seen += 1
                if seen % STEP == 0:
                    yield
                if type(item) is list or type(item) is dict:
                    found.append(item)
    return depth, seen


_BYTES_CODE = 1


def _pack_bytes(value: object) -> object:
    assert isinstance(value, Bytes)
    return msgspec.msgpack.Ext(_BYTES_CODE, value.data)


_pack = msgspec.msgpack.Encoder(enc_hook=_pack_bytes, order="deterministic").encode
_pack_as_is = msgspec.msgpack.Encoder(enc_hook=_pack_bytes).encode
_unpack = msgspec.msgpack.Decoder(ext_hook=lambda _, data: Bytes(bytes(data))).decode


def copy_of(value: Value) -> Value:
    """A copy that shares no list or object with the original."""
    if type(value) is list or type(value) is dict:
        return _unpack(_pack_as_is(value))
    return value


def equal(one: Value, other: Value) -> bool:
    """Equality after RFC 6902, 4.6: numbers by value, objects regardless of order; `true` is not 1.
    The cost is bounded by the smaller value."""
    return bool(one == other) and _pack(one) == _pack(other)
