"""Converts document values and operations between protobuf and JSON texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import cycle, repeat
from math import isfinite
from struct import Struct
from typing import Any

import msgspec

from hubbub.domain.documents.steps import STEP, Steps, finish
from hubbub.domain.documents.text import JsonList, JsonText
from hubbub.domain.documents.values import NO_LIMITS, Bytes, Value, admit, stored_value, value_json
from hubbub.domain.errors import InvalidPayload, Malformed, TooLarge
from hubbub.protocols import hubbub_pb2 as pb

_LIST, _OBJECT = pb.DocumentValue.LIST, pb.DocumentValue.OBJECT


MOST_VALUES = 32_768
"""Values in the operations of one change: reading more takes the event loop more than 20 ms, in one
piece. JSON has no such limit, since its text is checked in steps by the owner of the document."""


def write_document(document: JsonText) -> pb.DocumentValue:
    prepared: pb.DocumentValue | None = document.prepared
    return prepared if prepared is not None else _write(stored_value(document.text))


def prepare_document(document: JsonText) -> Steps[JsonText]:
    """The document with the value that `write_document` sends, created in steps."""
    wire = yield from _wire(stored_value(document.text))
    return JsonText(document.text, pb.DocumentValue.FromString(wire))


def write_operations(operations: JsonList) -> list[pb.DocumentOp]:
    return [_write_operation(each) for each in msgspec.json.decode(operations.text)]


def _write_operation(found: dict[str, Any]) -> pb.DocumentOp:
    operation = pb.DocumentOp(op=found["op"], path=found["path"], source=found.get("from"))
    if "value" in found:
        value = admit(found["value"], NO_LIMITS, NO_LIMITS.depth)
        operation.value.CopyFrom(_write(value))
    return operation


def _write(value: Value) -> pb.DocumentValue:
    return pb.DocumentValue.FromString(finish(_wire(value)))


def _wire(value: Value) -> Steps[bytes]:
    """Encodes the message by hand: creating message objects for 500,000 small values took many
    times as long and blocked other tenants."""
    if isinstance(value, list | dict) and value:
        return (yield from _composed(value, cycle(_PACE)))
    return _WRITERS.get(type(value), _text)(value)


def _text(value: str) -> bytes:
    data = value.encode()
    return b"\x32" + _varint(len(data)) + data


def _data(value: Bytes) -> bytes:
    return b"\x3a" + _varint(len(value.data)) + value.data


def _integer(value: int) -> bytes:
    return b"\x20" + _varint(value if value >= 0 else value + (1 << 64))


def _number(value: float) -> bytes:
    return b"\x29" + _DOUBLE.pack(value)


def _items(values: Iterable[Value], pace: Iterator[bool]) -> Steps[bytes]:
    parts: list[bytes] = []
    for each in values:
        if next(pace):
            yield
        if type(each) is int and 0 <= each < _SMALL:
            parts.append(_SMALL_ITEMS[each])
            continue
        if (type(each) is list or type(each) is dict) and each:
            written = yield from _composed(each, pace)
        else:
            written = _WRITERS.get(type(each), _text)(each)
        size = len(written)
        parts.append(_ITEM_HEADS[size] if size < _SMALL else b"\x42" + _varint(size))
        parts.append(written)
    return b"".join(parts)


def _composed(value: list[Value] | dict[str, Value], pace: Iterator[bool]) -> Steps[bytes]:
    if type(value) is list:
        return _EMPTY_LIST + (yield from _items(value, pace))
    assert type(value) is dict
    names = [each.encode() for each in value]
    keys = b"".join([b"\x4a" + _varint(len(name)) + name for name in names])
    return _EMPTY_OBJECT + (yield from _items(value.values(), pace)) + keys


def _varint(number: int) -> bytes:
    if number < _SMALL:
        return _VARINTS[number]
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


_EMPTY_LIST, _EMPTY_OBJECT = b"\x08\x01", b"\x08\x02"
_PACE = (*(False,) * (STEP - 1), True)
"""Whether a value ends a step, repeated cyclically."""
_DOUBLE = Struct("<d")
_SMALL = 0x80
_VARINTS = [bytes((number,)) for number in range(_SMALL)]
_ITEM_HEADS = [b"\x42" + size for size in _VARINTS]
_SMALL_ITEMS = [b"\x42\x02\x20" + number for number in _VARINTS]
_WRITERS: Mapping[Any, Callable[[Any], bytes]] = {
    list: lambda _: _EMPTY_LIST,
    dict: lambda _: _EMPTY_OBJECT,
    int: _integer,
    float: _number,
    Bytes: _data,
    bool: {False: b"\x18\x00", True: b"\x18\x01"}.__getitem__,
    type(None): {None: b"\x10\x01"}.__getitem__,
}


def read_document(document: pb.DocumentValue, where: str) -> JsonText:
    """Raises `Malformed` and `InvalidPayload`."""
    return JsonText(value_json(_read(document, where, repeat(None))))


def read_operations(operations: Iterable[pb.DocumentOp], where: str) -> JsonList:
    """Raises `Malformed`, `TooLarge` and `InvalidPayload`; the owner rejects invalid operations."""
    admitted = repeat(None, MOST_VALUES)
    try:
        found: Sequence[dict[str, Any]] = [
            _read_operation(each, f"{where}[{index}]", admitted)
            for index, each in enumerate(operations)
        ]
    except StopIteration:
        raise TooLarge(
            f"{where}` holds more than {MOST_VALUES:,} values; make several changes of it, or send "
            "it over the subprotocol hubbub.json.v1"
        ) from None
    return JsonList(msgspec.json.encode(found))


def _read_operation(
    operation: pb.DocumentOp, where: str, admitted: Iterator[None]
) -> dict[str, Any]:
    found: dict[str, Any] = {"op": operation.op, "path": operation.path}
    if operation.HasField("source"):
        found["from"] = operation.source
    if operation.HasField("value"):
        found["value"] = msgspec.Raw(value_json(_read(operation.value, f"{where}.value", admitted)))
    return found


def _read(found: pb.DocumentValue, where: str, admitted: Iterator[None]) -> Value:
    """Raises `StopIteration` if `admitted` ends before the values do."""
    next(admitted)
    kind = found.kind
    if kind == _LIST:
        return [_read(each, where, admitted) for each in found.items[:]]
    if kind == _OBJECT:
        names, items = found.keys[:], found.items[:]
        if len(names) != len(items) or len(set(names)) != len(names):
            raise Malformed(
                f"{where}` has an object with {len(set(names))} different names for "
                f"{len(items)} values"
            )
        return {name: _read(each, where, admitted) for name, each in zip(names, items, strict=True)}
    scalar = found.WhichOneof("scalar")
    if scalar == "data":
        return Bytes(found.data)
    if scalar == "number" and not isfinite(found.number):
        raise InvalidPayload(f"{where}` holds {found.number}, which is no number in JSON")
    if scalar is None:
        raise Malformed(f"{where}` holds a value of which nothing is set")
    return None if scalar == "null" else getattr(found, scalar)
