"""Values of documents and operations in protobuf, made of JSON texts and made into them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Any

import msgspec

from hubbub.domain.documents.text import JsonList, JsonText
from hubbub.domain.documents.values import Bytes, Value, admit_all, value_json
from hubbub.domain.errors import InvalidPayload, Malformed
from hubbub.protocols import hubbub_pb2 as pb

_LIST, _OBJECT = pb.DocumentValue.LIST, pb.DocumentValue.OBJECT


def write_document(document: JsonText) -> pb.DocumentValue:
    return _write(admit_all(msgspec.json.decode(document.text)))


def write_operations(operations: JsonList) -> list[pb.DocumentOp]:
    return [_write_operation(each) for each in msgspec.json.decode(operations.text)]


def _write_operation(found: dict[str, Any]) -> pb.DocumentOp:
    operation = pb.DocumentOp(op=found["op"], path=found["path"], source=found.get("from"))
    if "value" in found:
        operation.value.CopyFrom(_write(admit_all(found["value"])))
    return operation


def _write(value: Value) -> pb.DocumentValue:
    if isinstance(value, list):
        return pb.DocumentValue(kind=_LIST, items=[_write(each) for each in value])
    if isinstance(value, dict):
        items = [_write(each) for each in value.values()]
        return pb.DocumentValue(kind=_OBJECT, items=items, keys=list(value))
    if value is None:
        return pb.DocumentValue(null=True)
    if isinstance(value, bool):
        return pb.DocumentValue(boolean=value)
    if isinstance(value, int):
        return pb.DocumentValue(integer=value)
    if isinstance(value, float):
        return pb.DocumentValue(number=value)
    if isinstance(value, Bytes):
        return pb.DocumentValue(data=value.data)
    return pb.DocumentValue(text=value)


def read_document(document: pb.DocumentValue, where: str) -> JsonText:
    """Raises `Malformed` and `InvalidPayload`."""
    return JsonText(value_json(_read(document, where)))


def read_operations(operations: Iterable[pb.DocumentOp], where: str) -> JsonList:
    """Raises `Malformed` and `InvalidPayload`; what is no operation is for the owner to refuse."""
    found: Sequence[dict[str, Any]] = [
        _read_operation(each, f"{where}[{index}]") for index, each in enumerate(operations)
    ]
    return JsonList(msgspec.json.encode(found))


def _read_operation(operation: pb.DocumentOp, where: str) -> dict[str, Any]:
    found: dict[str, Any] = {"op": operation.op, "path": operation.path}
    if operation.HasField("source"):
        found["from"] = operation.source
    if operation.HasField("value"):
        found["value"] = msgspec.Raw(value_json(_read(operation.value, f"{where}.value")))
    return found


def _read(found: pb.DocumentValue, where: str) -> Value:
    if found.kind == _LIST:
        return [_read(each, where) for each in found.items[:]]
    if found.kind == _OBJECT:
        names, items = found.keys[:], found.items[:]
        if len(names) != len(items) or len(set(names)) != len(names):
            raise Malformed(
                f"{where}` has an object with {len(set(names))} different names for "
                f"{len(items)} values"
            )
        return {name: _read(each, where) for name, each in zip(names, items, strict=True)}
    kind = found.WhichOneof("scalar")
    if kind == "data":
        return Bytes(found.data)
    if kind == "number" and not isfinite(found.number):
        raise InvalidPayload(f"{where}` holds {found.number}, which is no number in JSON")
    if kind is None:
        raise Malformed(f"{where}` holds a value of which nothing is set")
    return None if kind == "null" else getattr(found, kind)
