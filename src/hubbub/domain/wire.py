"""How a field of an event's struct maps to the event's message of spec/hubbub.proto.

A field of a struct is the message's field with the same name, unless its annotation has a `Wire`
that says otherwise. Types need no annotation: they follow from the two declarations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    derived = property
else:

    class derived(property):
        """A property that is a field of the message: derived from the other fields when written,
        never read."""


class Wire(msgspec.Struct, frozen=True):
    name: str = ""
    """The name of the message's field, if it differs from the struct's."""
    inside: str = ""
    """The message field that contains this one."""
    flat: bool = False
    """The fields of this struct are fields of the enclosing message ..."""
    flat_in_json: bool = False
    """... or only in JSON, because protobuf detects the absence of one field faster than of
    many."""
    local: bool = False
    """Not part of the wire format."""
    always: bool = False
    """JSON includes the field even if it has its default; zero is a value."""
    unless: str = ""
    """Like `always`, unless this other field is set."""
    optional: bool = False
    """JSON omits the field while it is empty, although the struct has no default for it."""


ALWAYS = Wire(always=True)
FLAT = Wire(flat=True)
LOCAL = Wire(local=True)
OPTIONAL = Wire(optional=True)
