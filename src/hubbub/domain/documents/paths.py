"""Paths into documents: JSON Pointers (RFC 6901) with an optional leading `/`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hubbub.domain.errors import InvalidPatch, PatchFailed

Path = tuple[str, ...]
"""The segments; `()` is the whole document."""

_BAD_ESCAPE = re.compile("~(?![01])")
_INDEX = re.compile("0|[1-9][0-9]*")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def parse_path(text: str) -> Path:
    """`""` means the whole document, `/` its member `""`. Raises `InvalidPatch`."""
    if not text:
        return ()
    if text[0] == "/":
        text = text[1:]
    if "~" not in text:
        return tuple(text.split("/"))
    if _BAD_ESCAPE.search(text):
        raise InvalidPatch(f"the path {text[:40]!r} has a `~` that is neither `~0` nor `~1`")
    return tuple([each.replace("~1", "/").replace("~0", "~") for each in text.split("/")])


def path_text(path: Iterable[str]) -> str:
    """The path in the notation of RFC 6901."""
    text = "/".join([each.replace("~", "~0").replace("/", "~1") for each in path])
    return f"/{text}" if path else ""


def is_index(segment: str) -> bool:
    return _INDEX.fullmatch(segment) is not None


def existing_index(segment: str, length: int) -> int:
    """The index of an existing item. Raises `PatchFailed`."""
    if not is_index(segment):
        raise PatchFailed(f"{segment[:40]!r} is no index of a list", reason="index")
    index = int(segment) if len(segment) < 10 else length
    if index >= length:
        raise PatchFailed(f"the list has {length} items, no {segment[:40]}", reason="missing")
    return index


def new_index(segment: str, length: int) -> int | None:
    """The index at which an item may be inserted; None if the segment is a name. Raises
    `PatchFailed`."""
    if segment == "-":
        return length
    if is_index(segment):
        index = int(segment) if len(segment) < 10 else length + 1
        if index <= length:
            return index
        raise PatchFailed(
            f"the list has {length} items; {segment[:40]} would leave a gap", reason="index"
        )
    if _NUMBER.fullmatch(segment):
        raise PatchFailed(f"{segment[:40]!r} is no index of a list", reason="index")
    return None
