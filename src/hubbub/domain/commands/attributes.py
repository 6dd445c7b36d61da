"""Reads the attributes of an object one by one; each error carries the status of its problem.

`null` means absent, and so does `""` in an optional string. A boolean is never a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from hubbub.domain.commands.dates import read_date
from hubbub.domain.commands.jids import Jid, parse_jid
from hubbub.domain.commands.status import invalid, missing
from hubbub.domain.envelope import HIGHEST_PRIORITY
from hubbub.domain.shown import shown

Object = Mapping[str, Any]


def read_required(given: Object, name: str) -> Any:
    """Raises `CommandRefused` (6) if the attribute is absent."""
    value = given.get(name)
    if value is None:
        raise missing(f"{name} is missing")
    return value


def read_required_text(given: Object, name: str) -> str:
    """Raises `CommandRefused`: 6 if the attribute is absent, 7 if it is not a non-empty string."""
    value = read_required(given, name)
    if not isinstance(value, str) or not value:
        raise invalid(f"{name} is {shown(value)}; give a text")
    return _readable(name, value)


def read_text(given: Object, name: str) -> str | None:
    value = given.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise invalid(f"{name} is {shown(value)}; give a text")
    return _readable(name, value)


def read_jid(name: str, value: Any) -> Jid:
    """Raises `CommandRefused` (7) if the value is not a bare or full JID."""
    jid = parse_jid(value) if isinstance(value, str) else None
    if jid is None:
        raise invalid(f"{name} is {shown(value)}; give user@domain or user@domain/resource")
    _readable(name, jid.user + jid.domain)
    return jid


def read_flag(given: Object, name: str) -> bool | None:
    value = given.get(name)
    if value is not None and not isinstance(value, bool):
        raise invalid(f"{name} is {shown(value)}; give true or false")
    return value


def read_object(given: Object, name: str) -> dict[str, Any] | None:
    """Returns None for an empty object, too."""
    value = given.get(name)
    if value is not None and not isinstance(value, dict):
        raise invalid(f"{name} is {shown(value)}; give an object")
    return value or None


def read_priority(given: Object) -> int | None:
    value = given.get("priority")
    if value is None:
        return None
    if not is_number(value) or int(value) != value or not 0 <= value <= HIGHEST_PRIORITY:
        raise invalid(
            f"priority is {shown(value)}; give a whole number from 0 to {HIGHEST_PRIORITY}"
        )
    return int(value)


def read_moment(given: Object, name: str) -> int | None:
    """Returns milliseconds since 1970, or None if the attribute is absent."""
    value = given.get(name)
    if value is None or value == "":
        return None
    read = read_date(value)
    if read is None:
        raise invalid(f"{name} is {shown(value)}; give a date in ISO 8601, or in ms since 1970")
    return read


def is_number(value: object) -> bool:
    if isinstance(value, float):
        return isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _readable(name: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise invalid(f"{name} is no UTF-8") from None
    return text
