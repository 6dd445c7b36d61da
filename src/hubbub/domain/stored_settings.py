"""Settings in the store and the audit log: fields have their attribute names, and defaults are
omitted, so that a node of an earlier version can read settings that do not use a newer field."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

import msgspec

from hubbub.domain.setting import Setting

S = TypeVar("S", bound=Setting | str)


def stored_form(value: object) -> object:
    """A setting as plain values; other objects unchanged."""
    if not isinstance(value, Setting):
        return value
    return {
        field.name: stored_form(getattr(value, field.name))
        for field in _fields(type(value))
        if field.required or getattr(value, field.name) != _default(field)
    }


def encode_setting(value: Setting | str) -> bytes:
    return msgspec.json.encode(stored_form(value))


def decode_setting(data: bytes, kind: type[S]) -> S:
    """Raises `msgspec.MsgspecError`."""
    return msgspec.convert(_renamed(msgspec.json.decode(data), kind), kind)


def _default(field: msgspec.structs.FieldInfo) -> object:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


def _renamed(tree: Any, kind: Any) -> Any:
    """Renames attribute names to the names that the decoder expects."""
    if not (isinstance(kind, type) and issubclass(kind, Setting) and isinstance(tree, dict)):
        return tree
    renamed = dict(tree)
    for field in _fields(kind):
        if field.name in tree:
            del renamed[field.name]
            renamed[field.encode_name] = _renamed(tree[field.name], field.type)
    return renamed


@cache
def _fields(kind: type[Setting]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """Cached: resolving the types of fields is slow."""
    return msgspec.structs.fields(kind)
