"""Document values as plain Python, with `bytes`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from hubbub.domain.documents.values import Bytes, Value, value_json


def operations_json(operations: Iterable[Mapping[str, Any]]) -> bytes:
    """The JSON text of operations whose values may contain bytes."""
    return msgspec.json.encode([_operation(each) for each in operations])


def _operation(operation: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(operation)
    if "value" in found:
        found["value"] = msgspec.Raw(value_json(from_python(found["value"])))
    return found


def from_python(value: Any) -> Value:
    """Converts plain Python, with `bytes`, to a document value."""
    if isinstance(value, bytes | bytearray):
        return Bytes(bytes(value))
    if isinstance(value, list | tuple):
        return [from_python(each) for each in value]
    if isinstance(value, Mapping):
        return {str(name): from_python(each) for name, each in value.items()}
    return value


def to_python(value: Value) -> Any:
    """The inverse of `from_python`; the result shares nothing with the value."""
    if isinstance(value, Bytes):
        return value.data
    if isinstance(value, list):
        return [to_python(each) for each in value]
    if isinstance(value, dict):
        return {name: to_python(each) for name, each in value.items()}
    return value
