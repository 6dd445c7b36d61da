"""Operations of a patch as clients write them: RFC 6902, and merge patches (RFC 7396)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from hubbub.domain.documents.paths import Path, parse_path
from hubbub.domain.documents.steps import STEP, Steps, finish
from hubbub.domain.documents.values import (
    NO_LIMITS,
    DocumentLimits,
    Value,
    admit_steps,
    check_name_bytes,
    decode_json,
)
from hubbub.domain.errors import HubbubError, InvalidPatch, TooLarge

_STEP = STEP // 16
"""How many operations are parsed in one step."""

NAMES = ("add", "remove", "replace", "move", "copy", "test")


class Operation(msgspec.Struct, frozen=True, gc=False):
    """`source` is the `from` of move and copy; `value` is the value of add, replace and test."""

    op: str
    path: Path
    source: Path | None = None
    value: Value = None


def read_patch(text: bytes, limits: DocumentLimits) -> list[Operation]:
    """Parses a JSON Patch. Raises `InvalidPatch`, `InvalidPayload`, `TooLarge`."""
    return finish(read_patch_steps(text, limits))


def read_patch_steps(text: bytes, limits: DocumentLimits) -> Steps[list[Operation]]:
    check_request_bytes(text, limits)
    found = decode_json(text, limits)
    if not isinstance(found, list):
        raise InvalidPatch("a JSON Patch is a list of operations")
    if len(found) > limits.operations:
        raise TooLarge(
            f"the patch has {len(found)} operations; at most {limits.operations} are allowed"
        )
    return (yield from _read_all(found, limits))


def stored_patch(text: bytes) -> list[Operation]:
    """Parses the operations of an update, which were checked when it was created."""
    return finish(stored_patch_steps(text))


def stored_patch_steps(text: bytes) -> Steps[list[Operation]]:
    return _read_all(msgspec.json.decode(text), NO_LIMITS)


def read_merge_patch(text: bytes, limits: DocumentLimits) -> Value:
    """Parses a merge patch. Raises `InvalidPayload`, `TooLarge`."""
    return finish(read_merge_patch_steps(text, limits))


def read_merge_patch_steps(text: bytes, limits: DocumentLimits) -> Steps[Value]:
    check_request_bytes(text, limits)
    return admit_steps(decode_json(text, limits), limits, limits.depth)


def check_request_bytes(text: bytes, limits: DocumentLimits) -> None:
    """Raises `TooLarge`."""
    if len(text) > limits.request_bytes:
        raise TooLarge(
            f"the change has {len(text)} bytes; at most {limits.request_bytes} are allowed in one"
        )


def _read_all(found: list[Any], limits: DocumentLimits) -> Steps[list[Operation]]:
    operations: list[Operation] = []
    for index, each in enumerate(found):
        try:
            operations.append((yield from _read(each, index, limits)))
        except HubbubError as error:
            error.details["opIndex"] = index
            raise
        if index % _STEP == _STEP - 1:
            yield
    return operations


def _read(found: Any, index: int, limits: DocumentLimits) -> Steps[Operation]:
    if not isinstance(found, dict):
        raise InvalidPatch(f"operation {index} is not an object")
    op = found.get("op")
    if not isinstance(op, str) or op not in NAMES:
        raise InvalidPatch(
            f"operation {index} has the `op` {str(op)[:20]!r}; there are {', '.join(NAMES)}"
        )
    path = _path(found, "path", index)
    if op in ("add", "move", "copy"):
        _check_target(path, limits)
    if op in ("move", "copy"):
        return Operation(op, path, _path(found, "from", index))
    if op == "remove":
        return Operation(op, path)
    if "value" not in found:
        raise InvalidPatch(f"operation {index} ({op}) has no `value`")
    room = limits.depth - (0 if op == "test" else len(path))
    value = yield from admit_steps(found["value"], limits, room)
    return Operation(op, path, None, value)


def _path(found: dict[str, Any], name: str, index: int) -> Path:
    text = found.get(name)
    if not isinstance(text, str):
        raise InvalidPatch(f"operation {index} has no text as `{name}`")
    return parse_path(text)


def _check_target(path: Path, limits: DocumentLimits) -> None:
    """Checks a path whose parents may be created."""
    if len(path) > limits.depth:
        raise TooLarge(
            f"the path has {len(path)} levels; a document may have {limits.depth} of them"
        )
    for name in path:
        if len(name) * 4 > limits.name_bytes:
            check_name_bytes(name, limits)


# -- merge patches --------------------------------------------------------------------------------


def merge_operations(target: Value, patch: Value) -> Iterator[Operation]:
    """Yields the operations of a merge patch on this document; each may be applied before the next
    is taken. Bytes are scalars; null removes."""
    return _merge((), target, patch)


def _merge(path: Path, target: Value, patch: Value) -> Iterator[Operation]:
    if type(patch) is not dict or type(target) is not dict:
        yield Operation("add" if not path else "replace", path, None, _without_null(patch))
        return
    for name, value in patch.items():
        if name not in target:
            if value is not None:
                yield Operation("add", (*path, name), None, _without_null(value))
        elif value is None:
            yield Operation("remove", (*path, name))
        else:
            yield from _merge((*path, name), target[name], value)


def _without_null(patch: Value) -> Value:
    if type(patch) is not dict:
        return patch
    return {name: _without_null(value) for name, value in patch.items() if value is not None}
