"""Reads a tree of values into structs, and records every problem instead of the first."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

import msgspec
from msgspec import inspect

from hubbub.domain.fields import wire_name
from hubbub.server.settings.keys import REFUSED, Secret

Struct = TypeVar("Struct", bound=msgspec.Struct)

MAX_SHOWN_CHARS = 60
_TEXT_BOOLEANS = {
    "true": True, "yes": True, "on": True, "1": True,
    "false": False, "no": False, "off": False, "0": False,
}  # fmt: skip


class Given(NamedTuple):
    """A value from a source other than the file: `origin` names the source, `is_text` means that
    numbers and lists arrive as text."""

    value: object
    origin: str
    is_text: bool


def unwrap(value: object) -> tuple[object, str, bool]:
    """The value itself, its origin (empty for the file), and whether it is text."""
    if isinstance(value, Given):
        return value.value, f" ({value.origin})", value.is_text
    return value, "", False


def join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


@functools.cache
def key_types(kind: type[msgspec.Struct]) -> Mapping[str, tuple[str, object]]:
    """The attribute name and type behind each key of a struct."""
    return {
        wire_name(field.encode_name): (field.name, field.type)
        for field in msgspec.structs.fields(kind)
    }


@functools.cache
def _required(kind: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(field.name for field in msgspec.structs.fields(kind) if field.required)


def is_category(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def leaves(kind: type[msgspec.Struct], path: str = "") -> dict[str, object]:
    """The type of every key below a struct, by its path."""
    found: dict[str, object] = {}
    for key, (_, inner) in key_types(kind).items():
        if is_category(inner):
            found.update(leaves(cast(type[msgspec.Struct], inner), join(path, key)))
        else:
            found[join(path, key)] = inner
    return found


def _bare(kind: object) -> inspect.Type:
    """The type without annotation and without `| None`."""
    info = inspect.type_info(kind)
    while isinstance(info, inspect.Metadata):
        info = info.type
    if isinstance(info, inspect.UnionType):
        return next(part for part in info.types if not isinstance(part, inspect.NoneType))
    return info


def _description(kind: object) -> str:
    info = inspect.type_info(kind)
    known = info.extra_json_schema if isinstance(info, inspect.Metadata) else None
    return str((known or {}).get("description", ""))


def is_secret(kind: object) -> bool:
    info = _bare(kind)
    return isinstance(info, inspect.CustomType) and info.cls is Secret


def _takes_off(kind: object) -> bool:
    info = _bare(kind)
    return isinstance(info, inspect.LiteralType) and "off" in info.values


def _is_text(info: inspect.Type) -> bool:
    while isinstance(info, inspect.Metadata):
        info = info.type
    return isinstance(info, inspect.StrType)


def _bounds(info: inspect.IntType | inspect.FloatType) -> str:
    if info.ge is None or info.le is None:
        return ""
    return f" from {info.ge:.15g} to {info.le:.15g}"


def expected(kind: object) -> str:
    """A description of a key's valid values."""
    described = _description(kind)
    if described:
        return described[0].lower() + described[1:].removesuffix(".")
    info = _bare(kind)
    if isinstance(info, inspect.IntType):
        return f"a whole number{_bounds(info)}"
    if isinstance(info, inspect.FloatType):
        return f"a number{_bounds(info)}"
    if isinstance(info, inspect.BoolType):
        return "true or false"
    if isinstance(info, inspect.LiteralType):
        return f"one of {', '.join(map(str, info.values))}"
    if isinstance(info, inspect.VarTupleType):
        most = f"at most {info.max_length} " if info.max_length else ""
        return f"a list of {most}{'texts' if _is_text(info.item_type) else 'mappings'}"
    if isinstance(info, inspect.DictType):
        texts = _is_text(info.value_type)
        return "a mapping of texts to texts" if texts else "a mapping with text keys"
    if isinstance(info, inspect.CustomType) and info.cls is Path:
        return "a path"
    if isinstance(info, inspect.StrType) and info.max_length:
        least = f"{info.min_length} to " if info.min_length else "at most "
        return f"text of {least}{info.max_length} characters"
    return "text that is not empty" if isinstance(info, inspect.StrType) else "text"


def nature(value: object) -> str:
    """A description of a value's type, without the value."""
    if value is None:
        return "empty"
    for kind, name in (
        (bool, "true or false"),
        (str, "text"),
        (dict, "a mapping"),
        (list, "a list"),
    ):
        if isinstance(value, kind):
            return name
    return "a number"


def shown(value: object) -> str:
    if value is None or isinstance(value, dict):
        return nature(value)
    text = repr(value)
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}…"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The most similar known word, if any is close."""
    by_lower = {each.lower(): each for each in known}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


def refusal(path: str) -> str | None:
    """Why a legacy key is rejected, if it is one."""
    for prefix, reason in REFUSED.items():
        if path == prefix or path.startswith(f"{prefix}."):
            return reason
    return None


def _custom(kind: type, value: object) -> object:
    if kind is object:
        return value
    if not isinstance(value, str):
        raise ValueError("not text")
    return kind(value)


class SettingsReader:
    """Collects problems; `known` are the paths among which the intended key is searched for a
    mistyped one."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self.problems: list[str] = []
        self._known = tuple(known)

    def note(self, problem: str) -> None:
        self.problems.append(problem)

    def read(self, kind: type[Struct], tree: object, path: str) -> Struct | None:
        """The struct that the tree describes; an invalid key keeps its default. None if a required
        key is missing or invalid."""
        given = self.mapping(tree, path)
        keys = key_types(kind)
        values: dict[str, object] = {}
        for key, value in given.items():
            if key not in keys:
                self.refuse(path, key, keys)
                continue
            name, inner = keys[key]
            if is_category(inner):
                values[name] = self.read(cast(type[msgspec.Struct], inner), value, join(path, key))
            else:
                self._read_leaf(values, name, inner, value, join(path, key))
        missing = _required(kind) - values.keys()
        for key, (name, inner) in keys.items():
            if name in missing and key not in given:
                self.note(f"{join(path, key)} is missing; expected {expected(inner)}")
        return None if missing else kind(**values)

    def mapping(self, tree: object, path: str) -> dict[str, object]:
        """The tree as a mapping with text keys; None counts as an empty one."""
        tree, origin, _ = unwrap(tree)
        if tree is None:
            return {}
        if not isinstance(tree, dict):
            where = path or "the configuration"
            self.note(f"{where}{origin} is {nature(tree)}; expected a mapping of keys to values")
            return {}
        for key in tree:
            if not isinstance(key, str):
                self.note(f"{join(path, str(key))} has a key that YAML reads as {nature(key)}; "
                          "put it in quotes")  # fmt: skip
        return {key: value for key, value in tree.items() if isinstance(key, str)}

    def refuse(self, path: str, key: str, siblings: Mapping[str, object]) -> None:
        full = join(path, key)
        reason = refusal(full)
        if reason:
            self.note(f"{full} is refused: {reason}")
            return
        sibling = nearest(key, siblings)
        meant = join(path, sibling) if sibling else self._namesake(full)
        hint = f"did you mean {meant}?" if meant else f"known here: {', '.join(siblings)}"
        self.note(f"{full} is not a known key; {hint}")

    def _namesake(self, path: str) -> str | None:
        """A key of the same name in another category, or else the closest path."""
        name = path.rpartition(".")[2]
        same = (known for known in self._known if known.rpartition(".")[2] == name)
        return next(same, None) or nearest(path, self._known)

    def _read_leaf(
        self, values: dict[str, object], name: str, kind: object, value: object, path: str
    ) -> None:
        value, origin, is_text = unwrap(value)
        try:
            values[name] = _convert(value, kind, is_text=is_text)
        except (msgspec.ValidationError, ValueError):
            what = "not usable (hidden)" if is_secret(kind) else shown(value)
            self.note(f"{path}{origin} is {what}; expected {expected(kind)}")


def _convert(value: object, kind: object, *, is_text: bool) -> object:
    if value is False and _takes_off(kind):
        value = "off"  # which YAML reads as false
    if is_text and isinstance(value, str):
        info = _bare(kind)
        if isinstance(info, inspect.BoolType):
            value = _TEXT_BOOLEANS.get(value.lower(), value)
        elif isinstance(info, inspect.VarTupleType):
            value = [part.strip() for part in value.split(",") if part.strip()]
        elif not value:
            raise ValueError("empty")
    return msgspec.convert(value, kind, strict=not is_text, dec_hook=_custom)
