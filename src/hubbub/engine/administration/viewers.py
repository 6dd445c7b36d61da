"""Redacts responses for viewers: names of documents, queries of URLs (which often contain keys),
and names of peers in the audit log."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from hubbub.domain.errors import NotPermitted
from hubbub.domain.names import is_document

_HIDDEN = "(hidden)"
_QUERY = re.compile(r"(https?://[^?#\s'\"]*)[?#][^\s'\"]*")
_DOCUMENT = re.compile(r"(?<!\w)doc:.+", re.DOTALL)
"""Includes all that follows, since a name may contain any character."""
_ABOUT_PEERS = ("peer.", "collective.")
_NAMING = ("name", "before", "after")
_NEXT = "next"
"""The cursor of the next page, which lists for viewers make of no document's name."""


def check_viewed(asked: Iterable[object]) -> None:
    """`asked` are the parameters of a viewer's request, without a cursor. Raises `NotPermitted` if
    one is the name of a document: the response would reveal whether the document exists."""
    if any(isinstance(each, str) and is_document(each) for each in asked):
        raise NotPermitted("documents are not for viewers")


def for_viewers(value: Any) -> Any:
    """The JSON value with `(hidden)` in place of what viewers may not see."""
    if isinstance(value, dict):
        hidden = _NAMING if str(value.get("action", "")).startswith(_ABOUT_PEERS) else ()
        shown = {key: each if key == _NEXT else for_viewers(each) for key, each in value.items()}
        return {
            for_viewers(key): _HIDDEN if key in hidden and each else each
            for key, each in shown.items()
        }
    if isinstance(value, list | tuple):
        return [for_viewers(each) for each in value]
    if isinstance(value, str):
        return _DOCUMENT.sub(f"doc:{_HIDDEN}", _QUERY.sub(rf"\1?{_HIDDEN}", value))
    return value
