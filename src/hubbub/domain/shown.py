"""Values from outside, as error messages quote them."""

from __future__ import annotations

from reprlib import Repr
from typing import Final

_MOST_CHARS: Final = 60
_brief: Final = Repr()
_brief.maxlevel = 4
_brief.maxstring = _brief.maxother = _brief.maxlong = _MOST_CHARS
_brief.maxdict = _brief.maxlist = 8


def shown(value: object) -> str:
    """Short, however large or deeply nested the value is: only the beginning of it is read."""
    text = _brief.repr(value)
    return text if len(text) <= _MOST_CHARS else f"{text[:_MOST_CHARS]}…"
