"""From the structs of the wire to those of the domain, and back."""

from __future__ import annotations

from typing import TypeVar

import msgspec

S = TypeVar("S")


def into(kind: type[S], value: object) -> S:
    """The same values as another struct."""
    return msgspec.convert(value, kind, from_attributes=True)
