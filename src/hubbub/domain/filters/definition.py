"""Filters as clients set them, as they are listed, and as they are stored."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from hubbub.domain.filters.values import invalid, missing
from hubbub.domain.shown import shown
from hubbub.domain.wire import LOCAL

MAX_NAME_CHARS: Final = 255
PARTS: Final = ("template", "radius", "relevant", "condition")
ENVELOPE_NAMES: Final = "envelope"
HMESSAGE_NAMES: Final = "hmessage"


class FilterDefinition(msgspec.Struct, frozen=True, omit_defaults=True):
    """A filter as it was set. All given parts must hold. The types are not checked here:
    `compile_filter` reports problems."""

    name: str
    channel: str | None = None
    """A channel, or a pattern for all matching channels; None: all channels."""
    template: dict[str, Any] | None = None
    """Attributes that a message must have."""
    radius: float | None = None
    """Metres around `template.location`."""
    relevant: bool | None = None
    """True: only messages that are still relevant."""
    condition: dict[str, Any] | None = None
    names: Annotated[str, LOCAL] = ENVELOPE_NAMES
    """The label of the `Names` that the filter uses."""


def read_definition(value: object, names: str = ENVELOPE_NAMES) -> FilterDefinition:
    """Reads a definition from JSON; `compile_filter` checks the content of its parts. Raises
    `IncompleteFilter` and `InvalidFilter`."""
    if not isinstance(value, dict):
        raise invalid("", f"is {shown(value)}; give an object with a name and a condition")
    for name in value.keys() - {"name", "channel", *PARTS}:
        known = ", ".join(("name", "channel", *PARTS))
        raise invalid(str(name)[:40], f"is no part of a filter; there are {known}")
    name = value.get("name")
    if name is None:
        raise missing("name", "give the filter one")
    channel = value.get("channel")
    if channel is not None and not isinstance(channel, str):
        raise invalid("channel", f"is {shown(channel)}; give the name of a channel")
    parts = {part: value.get(part) for part in PARTS}
    return FilterDefinition(name, channel or None, names=names, **parts)


def check_filter_name(name: object) -> None:
    if name is None or name == "":
        raise missing("name", "give the filter one")
    if not isinstance(name, str) or len(name) > MAX_NAME_CHARS or not name.isprintable():
        raise invalid("name", f"is {shown(name)}; give 1 to {MAX_NAME_CHARS} printable characters")
