"""Reads the params of commands."""

from __future__ import annotations

from typing import Any

from hubbub.domain.commands.attributes import is_number, read_required_text, read_text
from hubbub.domain.commands.jids import parse_channel
from hubbub.domain.commands.status import invalid, missing
from hubbub.domain.shown import shown
from hubbub.domain.threads import DEFAULT_PAGE, MAX_PAGE
from hubbub.engine.commands.asking import Asker


def required_object(params: Any) -> dict[str, Any]:
    """Raises `CommandRefused` (6) if params are missing or not an object."""
    if not isinstance(params, dict):
        raise missing(f"params is {shown(params)}; give an object")
    return params


def valid_object(params: Any) -> dict[str, Any]:
    """Raises `CommandRefused` (7) if params are missing or not an object."""
    if not isinstance(params, dict):
        raise invalid(f"params is {shown(params)}; give an object")
    return params


def channel_in(asker: Asker, params: dict[str, Any]) -> str:
    """The channel in `chid`. Raises `CommandRefused`: 6 if missing, 7 if invalid, 9 for another
    domain."""
    return parse_channel(read_required_text(params, "chid"), asker.hub.name)


def page_in(params: dict[str, Any]) -> tuple[int, str | None]:
    """Returns `limit` and `after`. Raises `CommandRefused` (7)."""
    limit = params.get("limit")
    if limit is None:
        return DEFAULT_PAGE, read_text(params, "after")
    if not is_number(limit) or not 1 <= limit <= MAX_PAGE:
        raise invalid(f"limit is {shown(limit)}; give a number from 1 to {MAX_PAGE}")
    return int(limit), read_text(params, "after")
