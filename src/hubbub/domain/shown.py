"""Formats external values for error messages."""

from __future__ import annotations

from reprlib import Repr
from typing import Final

_MOST_CHARS: Final = 60
_brief: Final = Repr()
_brief.maxlevel = 4
_brief.maxstring = _brief.maxother = _brief.maxlong = _MOST_CHARS
_brief.maxdict = _brief.maxlist = 8


def shown(value: object) -> str:
    """A short quotation; only the beginning of a large or deeply nested value is read."""
    text = _brief.repr(value)
    return text if len(text) <= _MOST_CHARS else f"{text[:_MOST_CHARS]}…"
